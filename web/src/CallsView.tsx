// Single calls that were kept: how long all of a function's took, and the slowest ones, or those that took as
// long as a bar of the histogram says.
import { count, percent, plural, time } from "./format";
import { STATES, type Call, type CallDurations, type Profile } from "./profile";

const MOST = 300; // rows

export interface CallsProps {
  profile: Profile;
  selected: number;
  /** A bar of the histogram; null: all. */
  took: number | null;
  onSelect: (frame: number, took: number | null) => void;
  onCall: (thread: number, from: number, to: number) => void;
  height: number;
}

export function CallsView({ profile, selected, took, onSelect, onCall, height }: CallsProps) {
  const frames = new Map(profile.calls.map((call) => [profile.label(call.frame), call.frame]));
  const { durations } = profile.summary;
  const chosen = durations.find((each) => frames.get(each.name) === selected && selected > 0) ?? durations[0];
  const ofFunction = chosen && profile.calls.filter((call) => call.frame === frames.get(chosen.name));
  const of = took === null ? ofFunction : ofFunction?.filter((call) => barOf(chosen!, call.duration) === took);
  const slowest = [...(of ?? [])].sort((a, b) => b.duration - a.duration).slice(0, MOST);
  const all = profile.meta.n_calls;
  return (
    <div class="calls">
      <div class="scroller" style={{ maxHeight: `${height}px` }}>
        {durations.map((each) => (
          <div class={each === chosen ? "of here" : "of"} key={each.name}>
            <button aria-pressed={each === chosen && took === null} onClick={() => onSelect(frames.get(each.name) ?? 0, null)}>
              <b>{each.name}</b>
              <br />
              {plural(each.calls, "call")}, p50 {time(each.p50_ns)}, p99 {time(each.p99_ns)}, max {time(each.max_ns)}
            </button>
            <Histogram of={each} took={each === chosen ? took : null} onBar={(bar) => onSelect(frames.get(each.name) ?? 0, bar)} />
          </div>
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
                {took === null ? "the slowest calls" : `calls that took ${time(begin(took))} to ${time(begin(took + 1))}`} <span class="muted">{of && of.length > MOST ? `${MOST} of ${count(of.length)}` : ""}{profile.calls.length < all ? `; this page has ${count(profile.calls.length)} of ${count(all)} kept calls` : ""}</span>
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
        {profile.threadName(call.thread)} {call.state > 0 && <b>{STATES[call.state]}</b>} <small>{call.attributes}</small>
      </td>
    </tr>
  );
}

/** Bars are for powers of the square root of two: the one of what begins at `ns`, and where one begins. */
const barAt = (ns: number) => Math.round(2 * Math.log2(Math.max(1, ns)) - 0.499);
const begin = (bar: number) => 2 ** (bar / 2);

/** The bar that a call is in: that of the last class of the histogram that does not begin after its duration. */
function barOf({ histogram }: CallDurations, duration: number): number {
  return barAt(histogram.findLast(([from]) => from <= duration)?.[0] ?? 0);
}

interface HistogramProps {
  of: CallDurations;
  /** The bar that is chosen. */
  took: number | null;
  onBar: (bar: number | null) => void;
}

function Histogram({ of, took, onBar }: HistogramProps) {
  const bars = new Map<number, number>();
  for (const [from, calls] of of.histogram) bars.set(barAt(from), (bars.get(barAt(from)) ?? 0) + calls);
  const [low, high] = [Math.min(...bars.keys()), Math.max(...bars.keys())];
  const most = Math.max(...bars.values());
  const shown = Array.from({ length: Math.max(1, high - low + 1) }, (_, i) => ({ bar: low + i, calls: bars.get(low + i) ?? 0 }));
  return (
    <div class="bars" role="group" aria-label={`durations of ${of.name}`}>
      {shown.map(({ bar, calls }) => {
        const text = `from ${time(begin(bar))}: ${plural(calls, "call")}, ${percent(calls, of.calls)}`;
        return calls ? (
          <button key={bar} title={`${text}; click: these calls`} aria-label={text} aria-pressed={bar === took} onClick={() => onBar(bar === took ? null : bar)}>
            <span style={{ height: `${Math.max(2, (46 * Math.sqrt(calls)) / Math.sqrt(most))}px` }} />
          </button>
        ) : (
          <span key={bar} />
        );
      })}
    </div>
  );
}
