// Single calls that were kept: how long all of a function's took, and the slowest ones.
import { count, percent, plural, time } from "./format";
import { STATES, type Call, type Duration, type Profile } from "./profile";

const MOST = 300; // rows

export interface CallsProps {
  profile: Profile;
  selected: number;
  onSelect: (frame: number) => void;
  onCall: (thread: number, from: number, to: number) => void;
  height: number;
}

export function CallsView({ profile, selected, onSelect, onCall, height }: CallsProps) {
  const frames = new Map(profile.calls.map((call) => [profile.label(call.frame), call.frame]));
  const { durations } = profile.summary;
  const chosen = durations.find((each) => frames.get(each.name) === selected && selected > 0) ?? durations[0];
  const of = chosen && profile.calls.filter((call) => call.frame === frames.get(chosen.name));
  const slowest = [...(of ?? [])].sort((a, b) => b.duration - a.duration).slice(0, MOST);
  const all = profile.meta.n_calls;
  return (
    <div class="calls">
      <div class="scroller" style={{ maxHeight: `${height}px` }}>
        {durations.map((each) => (
          <button class="of" key={each.name} aria-pressed={each === chosen} onClick={() => onSelect(frames.get(each.name) ?? 0)}>
            <b>{each.name}</b>
            <br />
            {plural(each.calls, "call")}, p50 {time(each.p50_ns)}, p99 {time(each.p99_ns)}, max {time(each.max_ns)}
            <Histogram of={each} />
          </button>
        ))}
      </div>
      <div class="scroller" tabIndex={0} style={{ maxHeight: `${height}px` }} aria-label="The slowest calls">
        <table>
          <thead>
            <tr>
              <th>took</th>
              <th title="of a generator or coroutine: without the time that it was suspended">busy</th>
              <th>began at</th>
              <th class="function">
                the slowest calls <span class="muted">{of && of.length > MOST ? `${MOST} of ${count(of.length)}` : ""}{profile.calls.length < all ? `; this page has ${count(profile.calls.length)} of ${count(all)} kept calls` : ""}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {slowest.map((call) => (
              <Row key={`${call.thread}.${call.begin}`} call={call} profile={profile} onCall={onCall} />
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Row({ call, profile, onCall }: { call: Call; profile: Profile; onCall: CallsProps["onCall"] }) {
  const zoom = () => onCall(call.thread, call.begin, call.begin + call.duration);
  return (
    <tr onClick={zoom}>
      <td>{time(call.duration)}</td>
      <td>{call.busy === call.duration ? "" : time(call.busy)}</td>
      <td>{time(call.begin)}</td>
      <td class="function">
        <button onClick={zoom} title="show the samples of this call">
          zoom
        </button>{" "}
        {profile.threads[call.thread]?.name} {call.state > 0 && <b>{STATES[call.state]}</b>} <small>{call.attributes}</small>
      </td>
    </tr>
  );
}

/** Bars for powers of the square root of two. */
function Histogram({ of }: { of: Duration }) {
  const bars = new Map<number, number>();
  for (const [from, calls] of of.histogram) {
    const bar = Math.round(2 * Math.log2(Math.max(1, from)) - 0.499);
    bars.set(bar, (bars.get(bar) ?? 0) + calls);
  }
  const [low, high] = [Math.min(...bars.keys()), Math.max(...bars.keys())];
  const most = Math.max(...bars.values());
  const shown = Array.from({ length: Math.max(1, high - low + 1) }, (_, i) => ({ from: 2 ** ((low + i) / 2), calls: bars.get(low + i) ?? 0 }));
  const text = shown.filter((bar) => bar.calls).map((bar) => `from ${time(bar.from)}: ${count(bar.calls)}`).join(", ");
  return (
    <span class="bars" role="img" aria-label={`durations: ${text}`}>
      {shown.map((bar) => (
        <span key={bar.from} title={`from ${time(bar.from)}: ${plural(bar.calls, "call")}, ${percent(bar.calls, of.calls)}`} style={{ height: `${bar.calls ? Math.max(2, (46 * Math.sqrt(bar.calls)) / Math.sqrt(most)) : 0}px` }} />
      ))}
    </span>
  );
}
