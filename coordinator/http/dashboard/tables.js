// Peers, live sessions and events. Rows stay where they are and only what changed is written, so that a table can be read, selected
// and scrolled while it lives.
import { byId, element, setAttribute, setText } from "./dom.js";
import { NOTHING, bytes, clock, count, digits, duration, milliseconds, percent, whole } from "./format.js";

const ROWS_MAX = 200; // more sessions than that are counted, not listed
const EVENTS_KEPT = 200;

// The meanings of short column names, for users without a pointer to hover with.
function glossary(columns) {
  const entries = columns.filter(({ title }) => title).map(({ name, title }) => element("div", {}, element("dt", {}, name), element("dd", {}, title)));
  return element("details", { class: "glossary" }, element("summary", {}, "What the columns say"), element("dl", {}, ...entries));
}

const many = (number, one) => `${whole(number)} ${one}${number === 1 ? "" : "s"}`;

/** columns: [{name, title, text(row), numeric, mark(row)}]; `mark` is a state for the style (data-state). */
class Table {
  #rows = new Map(); // key -> tr

  constructor(parent, caption, columns, key) {
    Object.assign(this, { columns, key });
    this.body = element("tbody");
    const heads = columns.map(({ name, title, numeric }) => element("th", { scope: "col", title, class: numeric && "number" }, name));
    this.table = element("table", { class: "list" }, element("caption", { class: "hidden" }, caption), element("thead", {}, element("tr", {}, ...heads)), this.body);
    this.empty = element("p", { class: "empty" });
    parent.tabIndex = 0;
    parent.setAttribute("role", "region");
    parent.setAttribute("aria-label", `${caption}, scrolls`);
    parent.append(this.table, this.empty);
    parent.after(glossary(columns));
  }

  update(rows, nothing) {
    const old = this.#rows;
    this.#rows = new Map();
    rows.forEach((row, index) => {
      const line = old.get(this.key(row)) ?? this.#line();
      this.#write(line, row);
      this.#rows.set(this.key(row), line);
      if (this.body.children[index] !== line) this.body.insertBefore(line, this.body.children[index] ?? null);
    });
    while (this.body.childElementCount > rows.length) this.body.lastChild.remove();
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    setText(this.empty, nothing);
  }

  #line() {
    return element("tr", {}, ...this.columns.map(({ numeric, state }) => element("td", { class: [numeric && "number", state && "mark"].filter(Boolean).join(" ") })));
  }

  #write(line, row) {
    this.columns.forEach((column, index) => {
      const cell = line.children[index];
      setText(cell, column.text(row));
      if (column.state) setAttribute(cell, "data-state", column.state(row));
      if (column.full) setAttribute(cell, "title", column.full(row));
    });
  }
}

const share = (part, all) => (all > 0 ? percent(part / all) : NOTHING);
const some = (number, say) => (number > 0 ? say(number) : NOTHING);

const STATES = { serving: "good", idle: "calm" }; // any other wants to be looked at

const PEER_COLUMNS = [
  { name: "Role", text: (p) => p.role },
  { name: "State", text: (p) => p.state, state: (p) => STATES[p.state] ?? "warn" },
  { name: "Model", text: (p) => p.model, full: (p) => p.model },
  { name: "Owner", text: (p) => (p.owner || NOTHING) + (p.trusted ? " · trusted" : "") },
  { name: "Sessions", numeric: true, text: (p) => whole(p.sessions) },
  { name: "Round trip", numeric: true, text: (p) => some(p.round_trip_ms, milliseconds) },
  { name: "Busy", numeric: true, title: "Share of the last seconds spent in the model", text: (p) => percent(p.busy) },
  { name: "Accepted", numeric: true, title: "Of a drafter’s guesses", text: (p) => share(p.accepted, p.nodes) },
  { name: "Pages", numeric: true, title: "KV cache pages in use", text: (p) => (p.pages > 0 ? `${whole(p.pages - p.pages_free)} / ${whole(p.pages)}` : NOTHING) },
  { name: "Traffic", numeric: true, text: (p) => bytes(p.bytes) },
  { name: "Connected", numeric: true, text: (p) => duration(p.connected_s) },
];

const SESSION_COLUMNS = [
  { name: "Session", text: (s) => s.id.slice(-8), full: (s) => s.id },
  { name: "Request", text: (s) => s.label || NOTHING, full: (s) => s.label },
  { name: "Owner", text: (s) => s.owner || NOTHING },
  { name: "Age", numeric: true, text: (s) => duration(s.age_s) },
  { name: "Prompt", numeric: true, title: "Tokens of the prompt", text: (s) => count(s.prompt_tokens) },
  { name: "Tokens", numeric: true, title: "Written so far", text: (s) => count(s.tokens) },
  { name: "Guesses by", title: "Source of the last round’s guesses, and who decides", text: (s) => s.source + (s.automatic ? " · auto" : "") },
  { name: "Tree", numeric: true, title: "Guesses asked for × levels, + rounds ahead", text: (s) => (s.nodes > 0 ? `${s.nodes} × ${s.depth}${s.ahead > 0 ? ` + ${s.ahead}` : ""}` : NOTHING) },
  { name: "Accepted", numeric: true, title: "Belief that the first guess is right", text: (s) => some(s.acceptance, percent) },
  { name: "Per call", numeric: true, title: "Tokens of a round with these guesses", text: (s) => some(s.block_efficiency, digits) },
  { name: "In time", numeric: true, title: "Rounds whose guesses were there at once", text: (s) => some(s.hit_rate, percent) },
  { name: "Plain", numeric: true, title: "Tokens per second without guesses, by the cost model", text: (s) => some(s.plain_rate, (rate) => `${digits(rate)}/s`) },
  { name: "Drafted", numeric: true, title: "Tokens per second with guesses, by the cost model", text: (s) => some(s.draft_rate, (rate) => `${digits(rate)}/s`) },
  { name: "Link", numeric: true, title: "Round trip to the drafter, its work left out", text: (s) => some(s.round_trip_ms, milliseconds) },
  { name: "Draft", numeric: true, title: "Building a tree", text: (s) => some(s.draft_ms, milliseconds) },
  { name: "Step", numeric: true, title: "A round at the verifier without guesses", text: (s) => some(s.plain_ms, milliseconds) },
  { name: "Verify", numeric: true, title: "A round at the verifier with these guesses", text: (s) => some(s.verify_ms, milliseconds) },
  { name: "A guess", numeric: true, title: "What one guess adds to a pass", text: (s) => some(s.row_us, (us) => milliseconds(us / 1000)) },
  { name: "Queue", numeric: true, title: "Waiting for other sessions’ passes", text: (s) => some(s.queue_ms, milliseconds) },
  { name: "Batch", numeric: true, title: "Sessions that share a pass", text: (s) => some(s.batch, digits) },
];

export class Peers {
  #table = new Table(byId("peer-table"), "Verifiers and drafters", PEER_COLUMNS, (peer) => peer.number);
  #before = new Map(); // number -> {model_us, time, busy}

  update(status, time) {
    const peers = [...status.peers].sort((a, b) => (a.role === b.role ? a.number - b.number : a.role === "verifier" ? -1 : 1));
    this.#before = new Map(peers.map((peer) => [peer.number, this.#measured(peer, time)]));
    this.#table.update(peers.map((peer) => ({ ...peer, busy: this.#before.get(peer.number).busy })), "Nobody is connected.");
    setText(byId("peer-count"), `${many(status.verifiers, "verifier")}, ${many(status.drafters, "drafter")}`);
  }

  // Peers report about once a heartbeat: their share of time is taken between two reports that differ, and kept until the next.
  #measured({ number, model_us }, time) {
    const before = this.#before.get(number);
    if (!before) return { model_us, time, busy: null };
    if (before.model_us === model_us && time - before.time < 5) return before;
    return { model_us, time, busy: Math.min(1, Math.max(0, (model_us - before.model_us) / 1e6 / (time - before.time))) };
  }
}

export class Sessions {
  #table = new Table(byId("session-table"), "Live sessions", SESSION_COLUMNS, (session) => session.id);

  update(status) {
    const sessions = [...status.sessions].sort((a, b) => b.age_s - a.age_s).slice(0, ROWS_MAX);
    this.#table.update(sessions, "No text is being written. Ask for one in the playground.");
    const listed = sessions.length < status.sessions.length ? `, the oldest ${ROWS_MAX} listed` : "";
    setText(byId("session-count"), status.sessions_live > 0 ? whole(status.sessions_live) + listed : "");
  }
}

const URGENT = /lost|cut off|failed|fail-over/;
const NOTABLE = /refused|busy/;

export class Events {
  #list = byId("event-list");
  #latest = 0;

  /** The number after which /status is asked for events. */
  get latest() {
    return this.#latest;
  }

  update(events) {
    for (const event of events) {
      if (event.number > this.#latest) this.#list.prepend(this.#entry(event));
    }
    this.#latest = Math.max(this.#latest, events.at(-1)?.number ?? 0);
    while (this.#list.childElementCount > EVENTS_KEPT) this.#list.lastChild.remove();
    setText(byId("event-count"), this.#latest > 0 ? whole(this.#latest) : "");
  }

  forget() {
    this.#list.replaceChildren();
    this.#latest = 0;
  }

  #entry({ time_ms, kind, session, text }) {
    const time = new Date(time_ms);
    const state = URGENT.test(kind) ? "bad" : NOTABLE.test(kind) ? "warn" : "calm";
    const about = session && Number(`0x${session}`) !== 0 ? element("span", { class: "muted" }, ` session ${String(session).slice(-8)}`) : null;
    return element("li", {}, element("time", { datetime: time.toISOString(), title: time.toLocaleString() }, clock(time)),
      element("span", { class: "mark", "data-state": state }, kind), element("span", { class: "what" }, text, about));
  }
}
