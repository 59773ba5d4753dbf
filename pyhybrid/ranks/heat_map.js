// The page of many ranks: the verdict, and a heat map of ranks and steps (page.py has its data).
"use strict";
(async () => {
  const index = JSON.parse(document.getElementById("index").textContent);
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const texts = (name) => new TextDecoder().decode(bytes.subarray(index[name][0], index[name][0] + index[name][1])).split("\0");
  const numbers = (name) => {
    const [at, n, width] = index[name];
    const values = new Float64Array(n);
    for (let byte = 0; byte < width; byte++)
      for (let i = 0; i < n; i++) values[i] += bytes[at + byte * n + i] * 256 ** byte;
    return values;
  };
  const meta = JSON.parse(texts("meta")[0]);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";

  const main = document.createElement("main");
  document.getElementById("app").append(main);
  const element = (name, text = "", parent = main) => {
    const made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const time = (ns) => {
    for (const [unit, of] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
      if (Math.abs(ns) >= of) return `${(ns / of).toPrecision(3)} ${unit}`;
    return `${Math.round(ns)} ns`;
  };
  const choice = (label, words) => {
    const made = element("select", "", element("label", `${label} `, bar));
    for (const word of words) element("option", word, made);
    made.style.maxWidth = "none";
    made.onchange = draw;
    return made;
  };

  element("h1", meta.title);
  element("pre", meta.verdict).style.whiteSpace = "pre-wrap";
  const bar = element("p");
  bar.className = "toolbar";
  const figure = choice("time", meta.figures);
  const how = choice("shown", ["more than is usual in the step", "itself"]);
  const order = choice("ranks", ["slow ones first", "by number"]);
  const readout = element("p", "\u00a0");
  readout.className = "muted";
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "a row for each rank, a column for each step; the verdict above says what it shows");
  element("p", meta.about).className = "muted";

  const rows = meta.ranks.length;
  const columns = meta.columns;
  const cells = meta.figures.map((_, at) => numbers(`cell.${at}`)); // 0: nothing is known, else ns + 1
  const median = (values) => values.sort((a, b) => a - b)[(values.length - 1) >> 1] ?? 0;
  const usual = cells.map((of) =>
    Float64Array.from({ length: columns }, (_, column) =>
      median(Array.from({ length: rows }, (_, row) => of[row * columns + column]).filter((each) => each)),
    ),
  );
  const left = 64;
  let tall = 1;
  let wide = 1;
  const placed = () => (order.selectedIndex ? meta.ranks.map((_, at) => at).sort((a, b) => meta.ranks[a] - meta.ranks[b]) : meta.ranks.map((_, at) => at));

  function draw() {
    const scale = devicePixelRatio || 1;
    const width = Math.max(320, document.body.clientWidth - 24);
    wide = Math.min(24, (width - left) / columns);
    tall = Math.max(2, Math.min(18, 720 / rows));
    canvas.style.width = `${left + wide * columns}px`;
    canvas.style.height = `${tall * rows}px`;
    canvas.width = (left + wide * columns) * scale;
    canvas.height = tall * rows * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const [heat, text] = [dark ? "255, 110, 80" : "190, 40, 40", style.getPropertyValue("--muted")];
    const of = cells[figure.selectedIndex];
    const beside = usual[figure.selectedIndex];
    const beyond = how.selectedIndex === 0;
    const most = beyond ? meta.step_ns * 0.1 : of.reduce((a, b) => Math.max(a, b), 1);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    placed().forEach((row, y) => {
      if (tall >= 9 || y % Math.ceil(12 / tall) === 0) {
        context.fillStyle = text;
        context.fillText(`rank ${meta.ranks[row]}`, 0, Math.max(6, (y + 0.5) * tall));
      }
      for (let column = 0; column < columns; column++) {
        const value = of[row * columns + column];
        const shown = beyond ? value - beside[column] : value;
        context.fillStyle = value ? `rgba(${heat}, ${0.04 + 0.96 * Math.max(0, Math.min(1, shown / most))})` : style.getPropertyValue("--soft");
        context.fillRect(left + column * wide, y * tall, wide - (wide > 3 ? 0.5 : 0), tall - (tall > 3 ? 0.5 : 0));
      }
    });
  }

  canvas.onpointermove = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = placed()[Math.floor((event.clientY - box.top) / tall)];
    const column = Math.floor((event.clientX - box.left - left) / wide);
    const value = cells[figure.selectedIndex][row * columns + column];
    if (row === undefined || column < 0 || column >= columns || !value) return;
    const first = column * meta.every;
    const steps = meta.every > 1 ? `steps ${first} to ${first + meta.every - 1}, of each` : `step ${first}`;
    const beside = time(usual[figure.selectedIndex][column] - 1);
    readout.textContent = `rank ${meta.ranks[row]} on ${meta.hosts[row]}, ${steps}: ${meta.figures[figure.selectedIndex]} ${time(value - 1)}, usual ${beside}`;
  };
  addEventListener("resize", draw);
  draw();
  window.ready = true;
})();
