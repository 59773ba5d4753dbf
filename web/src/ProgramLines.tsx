// The program's own lines, by the samples in each and in what it called in libraries: the first place to
// look for a slow line, however deep in a library its time is spent.
import { useMemo } from "preact/hooks";
import { percent, time } from "./format";
import type { ProgramLine } from "./lines";
import type { Profile } from "./profile";

const SHOWN = 5;
const LEAST = 0.005; // share of the samples

export interface ProgramLinesProps {
  profile: Profile;
  lines: readonly ProgramLine[];
  /** What 100 % is. */
  all: number;
  /** null: there is no source to show. */
  onLine: ((file: string, line: number) => void) | null;
}

export function ProgramLines({ profile, lines, all, onLine }: ProgramLinesProps) {
  const texts = useMemo(() => new Map(profile.meta.sources.map((each) => [each.file, profile.source(each)])), [profile]);
  const shown = lines.filter((each) => each.weight >= LEAST * all).slice(0, SHOWN);
  if (!shown.length) return null;
  const most = Math.max(...shown.map((each) => each.weight));
  return (
    <section class="program listed" aria-label="Lines of the program">
      <h2 class="muted">lines of the program, with what each called in libraries{profile.meta.import_frame > 0 && ", without imports"}</h2>
      <ol>
        {shown.map(({ file, line, weight, waits }) => (
          <li key={`${file}:${line}`} class={waits ? "muted" : ""}>
            <button disabled={!onLine} title={`${file}:${line}${onLine ? ": show its source" : ""}`} onClick={() => onLine?.(file, line)}>
              <span class="share">
                <span class="bar" style={{ width: `${(100 * weight) / most}%` }} />
                {percent(weight, all)} <small>{time(weight)}</small>
              </span>
              <b>
                {file.replace(/.*\//, "")}:{line}
              </b>
              {waits && <span title="it waits for other threads: their own lines show why">waits</span>}
              <code>{texts.get(file)?.get(line)?.trim()}</code>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
