// The dashboard: asks the coordinator once a second what it counts and who is there, and hands that to the parts of the page.
import { byId, setAttribute, setText } from "./dom.js";
import { clock, digits, duration } from "./format.js";
import { History } from "./history.js";
import { Overview } from "./overview.js";
import { Playground } from "./playground.js";
import { Page } from "./prometheus.js";
import { here, refusal } from "./requests.js";
import { Events, Peers, Sessions } from "./tables.js";

const EVERY_MS = 1000;
const PATIENCE_MS = 5000;

const history = new History();
const overview = new Overview();
const peers = new Peers();
const sessions = new Sessions();
const events = new Events();
new Playground();

let heard = null; // the last answer: {status, time}
let mayCount = true; // false: the figures are of all owners' texts, and this page's key has an owner

async function ask(path) {
  const response = await fetch(here(path), { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (response.status === 401) throw new Error("The coordinator refuses: a key is needed. Reload the page to enter one.");
  if (!response.ok && response.status !== 403) throw new Error(`The coordinator answers ${response.status} to ${path}.`);
  return response;
}

async function askMetrics() {
  const response = mayCount ? await ask("/metrics") : null;
  mayCount &&= response.ok;
  return mayCount ? response.text() : "";
}

async function askStatus() {
  const response = await ask(`/status?events_after=${events.latest}`);
  if (!response.ok) throw await refusal(response);
  return response.json();
}

async function look() {
  let answers;
  try {
    answers = await Promise.all([askMetrics(), askStatus()]);
  } catch (error) {
    complain(error);
    return;
  }
  take(new Page(answers[0]), answers[1]);
}

function take(page, status) {
  if (heard && status.uptime_s < heard.status.uptime_s - 1) {
    history.forget();
    events.forget();
  }
  heard = { status, time: Date.now() };
  history.add(heard.time / 1000, page);
  show();
  peers.update(status, heard.time / 1000);
  sessions.update(status);
  events.update(status.events);
}

function show() {
  const { status } = heard;
  const choice = document.querySelector("input[name=span]:checked").value;
  overview.update(history, history.span(choice === "all" ? choice : Number(choice), status.uptime_s), status);

  for (const node of document.querySelectorAll(".counted")) node.hidden = !mayCount;
  byId("owned").hidden = mayCount;

  setState(...state(status));
  byId("trouble").hidden = true;
  byId("main").classList.remove("stale");
  setText(byId("model"), status.model);
  setText(byId("choice"), status.choice);
  setText(byId("uptime"), `up ${duration(status.uptime_s)}`);
  document.title = mayCount ? `${digits(history.now().rate("generation_tokens_total"))} tokens/s · Outrider` : "Outrider";
}

function state(status) {
  if (status.ready) return ["good", "Serving"];
  return ["warn", status.verifiers === 0 ? "Waiting for a verifier" : "The target loads"];
}

function setState(name, text) {
  setAttribute(byId("state"), "data-state", name);
  setText(byId("state"), text);
}

// fetch() itself fails with a TypeError where nobody listens, and a timeout has a name of its own.
function complain(error) {
  const silent = error instanceof TypeError || error.name === "TimeoutError";
  const reason = silent ? "The coordinator does not answer." : error.message;
  const since = heard ? ` The figures are those of ${clock(new Date(heard.time))}.` : "";
  setState("bad", "Unreachable");
  setText(byId("trouble"), `${reason}${since} Trying again every second.`);
  byId("trouble").hidden = false;
  byId("main").classList.add("stale");
  document.title = "Unreachable · Outrider";
}

// One look at a time, and none while nobody sees the page.
async function watch() {
  for (;;) {
    if (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
    const began = performance.now();
    await look();
    await new Promise((later) => setTimeout(later, Math.max(0, EVERY_MS - (performance.now() - began))));
  }
}

byId("span").addEventListener("change", () => heard && show());
watch();
