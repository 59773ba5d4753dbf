// Reads trace events as the Performance panel of Chrome's DevTools does, and prints what it makes of them:
//
//     node trace.mjs TRACE     as JSON: {profiles: {TID: [[function, ...] of each sample, the leaf last]},
//                              threads: {TID: {name, calls: [[name, begin, duration in us], ...]}}}
import { readFileSync } from "node:fs";

globalThis.DOMRect = class {};
const { Processor } = await import("@paulirish/trace_engine");

const { traceEvents } = JSON.parse(readFileSync(process.argv[2]));
const processor = Processor.TraceProcessor.createWithAllHandlers();
await processor.parse(traceEvents, {});
const { Samples, Renderer } = processor.data;

const profiles = {};
for (const threads of Samples.profilesInProcess.values()) {
  for (const [tid, { parsedProfile }] of threads) {
    profiles[tid] = parsedProfile.samples.map((id) => {
      const path = [];
      for (let node = parsedProfile.nodeById(id); node?.parent; node = node.parent) path.unshift(node.functionName);
      return path;
    });
  }
}
const threads = {};
for (const { threads: ofProcess } of Renderer.processes.values()) {
  for (const [tid, { name, entries }] of ofProcess) {
    const calls = entries.filter((entry) => entry.name !== "ProfileCall");
    threads[tid] = { name, calls: calls.map((entry) => [entry.name, entry.ts, entry.dur]) };
  }
}
console.log(JSON.stringify({ profiles, threads }));
