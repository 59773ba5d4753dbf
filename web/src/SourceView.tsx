// The source of a file, and beside each line its share of the samples.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { count, percent, time } from "./format";
import { linesByFile, type ProgramLine } from "./lines";
import type { Profile } from "./profile";
import type { Sums } from "./selection";

export interface SourceProps {
  profile: Profile;
  sums: Sums;
  lines: readonly ProgramLine[];
  file: string;
  line: number;
  onFile: (file: string) => void;
  height: number;
}

export function SourceView({ profile, sums, lines, file, line, onFile, height }: SourceProps) {
  const { sources } = profile.meta;
  const weights = useMemo(() => linesByFile(profile, sums.leaves), [profile, sums]);
  const numbers = useMemo(() => new Map(profile.strings.map((text, i) => [text, i])), [profile]);
  const heaviest = (name: string) => Math.max(0, ...(weights.get(numbers.get(name) ?? -1)?.total.values() ?? []));
  const files = useMemo(() => sources.map((each) => ({ each, most: heaviest(each.file) })).sort((a, b) => Number(a.each.library) - Number(b.each.library) || b.most - a.most), [weights]);
  const chosen = sources.find((each) => each.file === file) ?? files[0]?.each;
  const text = useMemo(() => (chosen ? profile.source(chosen) : new Map<number, string>()), [chosen]);
  const of = chosen && weights.get(numbers.get(chosen.file) ?? -1);
  const most = Math.max(1, ...(of?.total.values() ?? []));
  const scroller = useRef<HTMLDivElement>(null);
  const counted = chosen && profile.counted.get(numbers.get(chosen.file) ?? -1);
  const hot = useMemo(() => {
    const own = lines.filter((each) => each.file === chosen?.file).map((each): [number, number] => [each.line, each.weight]);
    const found = own.length ? own : [...(of?.own ?? [])].sort((a, b) => b[1] - a[1]);
    return found.filter(([, weight]) => weight > sums.all * 0.001).map(([at]) => at);
  }, [of, lines]);
  const show = (at: number) => {
    const box = scroller.current;
    const row = box?.querySelector<HTMLElement>(`[data-line="${at}"]`);
    if (box && row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  };
  useEffect(() => {
    show(line || hot[0] || 1);
  }, [chosen, line]);
  if (!chosen) return null;
  let before = 0;
  return (
    <div class="source">
      <div class="row">
        <label>
          file{" "}
          <select value={chosen.file} onChange={(event) => onFile(event.currentTarget.value)}>
            {files.map(({ each, most: share }) => (
              <option key={each.file} value={each.file}>
                {percent(share, sums.all)} {each.file}
              </option>
            ))}
          </select>
        </label>
        <span>
          hottest lines:{" "}
          {hot.slice(0, 5).map((at) => (
            <button key={at} onClick={() => show(at)}>
              {at}
            </button>
          ))}
        </span>
        {chosen.note && <span class="amber">{chosen.note}</span>}
      </div>
      <div ref={scroller} class="scroller" tabIndex={0} style={{ height: `${height}px` }} aria-label={`Source of ${chosen.file}`}>
        <table class="code">
          <thead>
            <tr>
              <th title="samples on the line itself, of Python with the native code that it called">own</th>
              <th title="samples on the line, with all that it called">total</th>
              {counted && <th title="times that the line was begun: all are counted">hits</th>}
              {counted && <th title="wall-clock time from the line's begin to the next one's, with what it called">time</th>}
              <th>line</th>
              <th class="text">{chosen.file}</th>
            </tr>
          </thead>
          <tbody>
            {[...text].map(([at, code]) => {
              const own = of?.own.get(at) ?? 0;
              const total = of?.total.get(at) ?? 0;
              const isGap = before > 0 && at > before + 1;
              before = at;
              return (
                <tr key={at} data-line={at} class={`${isGap ? "gap " : ""}${at === line ? "here" : ""}`}>
                  <td title={own ? time(own) : ""}>{own ? percent(own, sums.all) : ""}</td>
                  <td title={total ? time(total) : ""}>
                    {total ? (
                      <span class="share">
                        <span class="bar" style={{ width: `${(100 * total) / most}%` }} />
                        {percent(total, sums.all)}
                      </span>
                    ) : (
                      ""
                    )}
                  </td>
                  {counted && <td>{counted.has(at) ? count(counted.get(at)!.hits) : ""}</td>}
                  {counted && <td>{counted.has(at) ? time(counted.get(at)!.total) : ""}</td>}
                  <td class="number">{at}</td>
                  <td class="text">{code}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}
