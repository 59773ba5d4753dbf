// What PyTorch's allocator gave out (--torch memory): the most that lived in each step, and which calls had it, those that
// grow with the steps first, with who holds that.
import { count } from "./format";
import type { MemoryMeta } from "./records";

const HEIGHT = 36;

/** `1.23 MB`, as `report memory` has it. */
export function megabytes(bytes: number): string {
  return bytes < 1e8 ? `${(bytes / 1e6).toFixed(2)} MB` : `${count(Math.round(bytes / 1e6))} MB`;
}

/** A line of one of both figures of the steps: the most in each, and what lived at its end. */
function Line({ values, most, width, name }: { values: number[]; most: number; width: number; name: string }) {
  const x = (at: number) => (values.length > 1 ? (at / (values.length - 1)) * width : width / 2);
  const points = values.map((value, at) => `${x(at).toFixed(1)},${(HEIGHT - (value / most) * (HEIGHT - 2)).toFixed(1)}`);
  return <polyline class={name} points={points.join(" ")} />;
}

export function Memory({ memory, width }: { memory: MemoryMeta; width: number }) {
  const { calls, steps } = memory;
  const most = Math.max(...steps.map(([peak]) => peak), 1);
  const largest = Math.max(...calls.map((each) => Math.max(each.at_peak, each.per_step)), 1);
  return (
    <section class="memory listed" aria-label="Memory">
      <h2 class="muted">{memory.texts.join("; ")}</h2>
      {steps.length > 1 && (
        <svg width={width} height={HEIGHT} role="img" aria-label={`the most that lived in each of ${steps.length} steps, up to ${megabytes(most)}`}>
          <Line name="peak" values={steps.map(([peak]) => peak)} most={most} width={width} />
          <Line name="alive" values={steps.map(([, alive]) => alive)} most={most} width={width} />
        </svg>
      )}
      <ol>
        {calls.map(({ text, at_peak, per_step, holders }) => (
          <li key={text}>
            <span class="share">
              <span class="bar" style={{ width: `${(100 * Math.max(at_peak, per_step)) / largest}%` }} />
              {megabytes(at_peak)}
            </span>{" "}
            <b>{text}</b> {per_step > 0 && <span class="amber">{megabytes(per_step)} more after each step</span>}
            {holders.length > 0 && <small class="muted"> held by {holders.join(", ")}</small>}
          </li>
        ))}
      </ol>
    </section>
  );
}
