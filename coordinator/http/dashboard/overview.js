// The figures at the top: what the system writes, how well it guesses, and how long people wait.
import { LineChart, drawColumns, drawMeter, drawSplit } from "./charts.js";
import { byId, element, setAttribute, setFigure, setText } from "./dom.js";
import { NOTHING, count, digits, percent, seconds, whole } from "./format.js";

const LEVELS_MAX = 16; // more columns than that cannot be read

const TOKENS = "generation_tokens_total";
const CALLS = "verifier_calls_total";
const GUESSES = "spec_decode_num_draft_tokens_total";
const TAKEN = "spec_decode_num_accepted_tokens_total";

const LATENCIES = [
  ["First token", "time_to_first_token_seconds"],
  ["Between tokens", "inter_token_latency_seconds"],
  ["Whole request", "e2e_request_latency_seconds"],
  ["In the queue", "request_queue_time_seconds"],
];
const SHARES = [0.5, 0.95, 0.99];

const PARTS = [
  ["draft", "Waiting for guesses"],
  ["network", "Waiting for the link"],
  ["verify", "Verifying"],
  ["accept", "Accepting"],
  ["other", "Other"],
];

const figure = (number, unit, say = digits) => [say(number), Number.isFinite(number ?? NaN) ? unit : ""];

const shareOf = (number) => {
  const [value, unit = ""] = percent(number).split("\u202f");
  return [value, unit];
};

export class Overview {
  constructor() {
    const chart = (id, label, say, options = {}) => new LineChart(byId(id), { label, say, ...options });
    const perSecond = (number) => `${digits(number)} tokens/s`;
    this.throughput = chart("throughput-chart", "Throughput", perSecond, { axis: true });
    this.perCall = chart("per-call-chart", "Tokens per target call", digits);
    this.acceptance = chart("acceptance-chart", "Acceptance", percent, { top: 1 });
    this.running = chart("running-chart", "Requests running", whole);
  }

  /** `span`: what averages and percentiles are taken over. */
  update(history, span, status) {
    const now = history.now();
    const time = Date.now() / 1000;
    this.#updateThroughput(history, now, span, time);
    this.#updateGuessing(history, span, time);
    this.#updateRequests(history, status, time);
    updateCache(history.page, status);
    updateDepths(span);
    updateLatency(span);
    updateRounds(span);
  }

  #updateThroughput(history, now, span, time) {
    setFigure(byId("throughput"), figure(now.rate(TOKENS), "tokens/s now"));
    setText(byId("throughput-note"), `${digits(span.rate(TOKENS))} on average · ${count(span.count(TOKENS))} written, ${count(span.count("prompt_tokens_total"))} read`);
    this.throughput.draw(history.series((part) => part.rate(TOKENS)), time);
  }

  #updateGuessing(history, span, time) {
    setFigure(byId("per-call"), figure(span.ratio(TOKENS, CALLS), "tokens"));
    setText(byId("per-call-note"), `${count(span.count(CALLS))} calls of the target`);
    this.perCall.draw(history.series((part) => part.ratio(TOKENS, CALLS)), time);

    setFigure(byId("acceptance"), shareOf(span.ratio(TAKEN, GUESSES)));
    setText(byId("acceptance-note"), `${count(span.count(TAKEN))} of ${count(span.count(GUESSES))} guesses taken`);
    this.acceptance.draw(history.series((part) => part.ratio(TAKEN, GUESSES)), time);
  }

  #updateRequests(history, status, time) {
    setFigure(byId("running"), [whole(history.page.total("num_requests_running")), "running"]);
    setText(byId("running-note"), `${whole(status.waiting)} waiting · ${whole(status.figures.parked)} parked · ${whole(status.figures.busy)} turned away`);
    this.running.draw(history.gauge("num_requests_running"), time);
  }
}

function updateCache(page, { figures }) {
  const share = page.has("kv_cache_usage_perc") ? page.total("kv_cache_usage_perc") : null;
  setFigure(byId("cache"), shareOf(share));
  setText(byId("cache-note"), `${whole(figures.pages - figures.pages_free)} of ${whole(figures.pages)} pages · ${whole(figures.pages_shared)} shared · ${count(figures.evictions)} evictions`);
  drawMeter(byId("cache-meter"), share, `KV cache: ${percent(share)} in use`);
}

// Positions count from 0, as vLLM's do.
function updateDepths(span) {
  const taken = span.by("spec_decode_num_accepted_tokens_per_pos_total", "position");
  const drafted = [...span.by("drafts_at_depth_total", "position")].filter(([, rounds]) => rounds > 0).sort(([a], [b]) => a - b);
  drawColumns(byId("depths"), drafted.slice(0, LEVELS_MAX).map(([position, rounds]) => column(Number(position) + 1, (taken.get(position) ?? 0) / rounds)));
}

const column = (depth, share) => ({ label: String(depth), share, value: String(Math.round(share * 100)), words: `Depth ${depth}: ${percent(share)}` });

function updateLatency(span) {
  const rows = LATENCIES.map(([label, name]) => [label, ...SHARES.map((share) => quantile(span, name, share))]);
  fillTable(byId("latency"), rows);
  setText(byId("latency-note"), `Requests that ended: ${count(span.count("e2e_request_latency_seconds_count"))}`);
}

function quantile(span, name, share) {
  const found = span.quantile(name, share);
  return found ? (found.beyond ? "> " : "") + seconds(found.value) : NOTHING;
}

function updateRounds(span) {
  const spent = span.by("round_seconds_total", "part");
  const all = PARTS.reduce((sum, [part]) => sum + (spent.get(part) ?? 0), 0);
  const rounds = span.count("rounds_total");
  const parts = PARTS.map(([name, label]) => ({ name, label, share: all > 0 ? (spent.get(name) ?? 0) / all : 0 }));
  setText(byId("round-note"), rounds > 0 ? `${seconds(all / rounds)} a round, ${count(rounds)} rounds` : "No rounds");
  drawSplit(byId("round-split"), parts, parts.map(({ label, share }) => `${label} ${percent(share)}`).join(", "));
  fillTable(byId("round-parts"), parts.map(({ label, share }) => [label, rounds > 0 ? seconds((share * all) / rounds) : NOTHING, all > 0 ? percent(share) : NOTHING]));
  parts.forEach(({ name }, index) => setAttribute(byId("round-parts").children[index].firstChild, "class", `key key-${name}`));

  setText(byId("hidden-share"), percent(span.ratio("round_trip_hidden_seconds_total", "round_trip_seconds_total")));
  setText(byId("hit-rate"), percent(span.ratio("draft_ahead_hits_total", "draft_ahead_rounds_total")));
}

// Rows of texts; the first is the row's head.
function fillTable(body, rows) {
  if (body.childElementCount === 0) {
    body.append(...rows.map(([, ...cells]) => element("tr", {}, element("th", { scope: "row" }), ...cells.map(() => element("td", { class: "number" })))));
  }
  rows.forEach((texts, row) => texts.forEach((text, index) => setText(body.children[row].children[index], text)));
}
