// One measured operation of a living peer, in a fresh process: node runs pi, bun runs omp.
//   node peer.mjs pi ROOT OP '{"json":"arguments"}'
// Prints {ms, hwm_kb, info}; ms is the operation alone, without starting and importing.
import fs from "node:fs";
import path from "node:path";

const [peer, root, op, given = "{}"] = process.argv.slice(2);
const args = JSON.parse(given);
const isPi = peer === "pi";
const home = isPi
  ? path.join(root, "@mariozechner/pi-coding-agent/dist")
  : path.join(root, "@oh-my-pi/pi-coding-agent/src");
const load = (pi, omp) => import(path.join(home, isPi ? pi : omp));
const { SessionManager } = await load("core/session-manager.js", "session/session-manager.ts");
const listing = isPi ? null : await import(path.join(home, "session/session-listing.ts"));
const searching =
  op !== "search"
    ? null
    : await load("modes/interactive/components/session-selector-search.js", "modes/components/session-selector.ts");

const info = {};
let elapsed = 0;
async function time(work) {
  const started = performance.now();
  const result = await work();
  elapsed = performance.now() - started;
  return result;
}
const peakKb = () => Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]);
const messagesOf = (file, count) =>
  fs
    .readFileSync(file, "utf8")
    .split("\n", count)
    .map((line) => JSON.parse(line));
const countMessages = (list) => list.reduce((sum, each) => sum + each.messageCount, 0);

const ops = {
  open: async () => {
    const manager = await time(() => SessionManager.open(args.file));
    info.entries = manager.getEntries().length;
  },
  context: async () => {
    const context = await time(async () => (await SessionManager.open(args.file)).buildSessionContext());
    info.messages = context.messages.length;
  },
  context_again: async () => {
    const manager = await SessionManager.open(args.file);
    manager.buildSessionContext();
    info.messages = (await time(() => manager.buildSessionContext())).messages.length;
  },
  tree: async () => {
    const manager = await SessionManager.open(args.file);
    info.roots = (await time(() => manager.getTree())).length;
  },
  append: async () => {
    const messages = messagesOf(args.messages, args.count);
    const manager = SessionManager.create(args.cwd, args.scratch);
    const each = [];
    await time(async () => {
      for (const message of messages) {
        const before = performance.now();
        manager.appendMessage(message);
        each.push(performance.now() - before);
      }
    });
    each.sort((a, b) => a - b);
    info.p99_us = Math.round(each[Math.floor(each.length * 0.99)] * 1000);
    info.lines = fs.readFileSync(manager.getSessionFile(), "latin1").split("\n").length - 1;
  },
  list: async () => {
    const found = await time(() => SessionManager.list(args.cwd, args.dir));
    info.sessions = found.length;
    info.messages = countMessages(found);
  },
  list_all: async () => {
    const found = await time(() => SessionManager.listAll());
    info.sessions = found.length;
    info.messages = countMessages(found);
  },
  recent: async () => {
    const found = await time(() =>
      isPi
        ? SessionManager.list(args.cwd, args.dir).then((all) => all.slice(0, args.count))
        : listing.getRecentSessions(args.dir, args.count),
    );
    info.sessions = found.length;
  },
  continue: async () => {
    const manager = await time(() => SessionManager.continueRecent(args.cwd, args.dir));
    info.id = manager.getSessionId();
  },
  resume: async () => {
    info.path = await time(async () => {
      if (!isPi) return (await listing.resolveResumableSession(args.id, args.cwd))?.session.path;
      const matches = (all) => all.find((each) => each.id.startsWith(args.id))?.path;
      return matches(await SessionManager.list(args.cwd)) ?? matches(await SessionManager.listAll());
    });
    info.path = path.basename(info.path ?? "");
  },
  search: async () => {
    const all = await SessionManager.listAll();
    const find = isPi
      ? () => searching.filterAndSortSessions(all, args.query, "recent")
      : () => searching.rankSessionSearchMatches(all, args.query);
    info.hits = (await time(find)).length;
  },
  fork: async () => {
    const manager = await time(() => SessionManager.forkFrom(args.file, args.cwd, args.scratch));
    info.bytes = fs.statSync(manager.getSessionFile()).size;
  },
  branched: async () => {
    const manager = await SessionManager.open(args.file, args.scratch);
    const made = await time(() => manager.createBranchedSession(manager.getLeafId()));
    info.bytes = fs.statSync(made).size;
  },
};

await ops[op]();
process.stdout.write(`${JSON.stringify({ ms: elapsed, hwm_kb: peakKb(), info })}\n`, () => process.exit(0));
