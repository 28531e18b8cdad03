// A text, streamed: which words were drafted and which the target put itself, what it took, and the trees of its rounds.
import { byId, element, setAttribute, setText } from "./dom.js";
import { NOTHING, digits, percent, seconds, whole } from "./format.js";
import { get, post } from "./requests.js";
import { TreeView } from "./tree.js";

// Parameters with a field in the page, by its name there. All others get one below "More parameters". What they may be is at /parameters; pairs that
// do not go together are refused by the coordinator, which says why.
const FIELDS = { temperature: "temperature", "draft.method": "method", "draft.accept": "accept", "draft.nodes": "nodes" };
const FINISHES = { stop: "it came to its end", length: "as many tokens as asked for" };

const option = (name) => element("option", { value: name }, name || "auto");

/** The value of a parameter as its field has it; undefined: it is left to the coordinator. */
function valueOf({ name, type }, fields) {
  const text = fields.get(FIELDS[name] ?? name);
  if (!text) return undefined;
  if (type === "boolean") return text === "true";
  return type === "string" ? text : Number(text);
}

/** A field for a parameter that the page has none for. */
function control({ name, type, choices, least, most, default: usual }) {
  const names = choices ?? (type === "boolean" ? ["false", "true"] : null);
  if (names) return element("select", { name }, ...["", ...names].map(option));
  if (type === "string") return element("input", { type: "text", name, placeholder: "auto", autocomplete: "off" });
  return element("input", { type: "number", name, min: least, max: most, step: type === "integer" ? 1 : "any", placeholder: usual ?? "auto" });
}

// The body of a request, from the form. Empty fields are left to the coordinator.
function question(form, parameters) {
  const fields = new FormData(form);
  const prompt = fields.get("prompt");
  const plain = fields.get("speculation") === "off";
  const body = { max_tokens: Number(fields.get("max_tokens")), temperature: Number(fields.get("temperature")), stream: true, stream_options: { include_usage: true } };
  if (fields.get("kind") === "chat") body.messages = [{ role: "user", content: prompt }];
  else body.prompt = prompt;
  if (fields.get("seed")) body.seed = Number(fields.get("seed"));
  body.draft = plain ? false : { details: true };
  for (const parameter of parameters) {
    const value = valueOf(parameter, fields);
    const [, inner] = parameter.name.split("draft.");
    if (value !== undefined && !inner) body[parameter.name] = value;
    else if (value !== undefined && !plain) body.draft[inner] = value;
  }
  return [body.messages ? "/v1/chat/completions" : "/v1/completions", body];
}

/** The tokens of a chunk: [{text, drafted}]. Without details it is one piece that nobody drafted. */
function pieces(choice) {
  if (choice.outrider?.tokens) return choice.outrider.tokens;
  const text = choice.text ?? choice.delta?.content ?? "";
  return text ? [{ text, drafted: false }] : [];
}

// The cost of a text, counted as it comes. Every round ends with one token of the target's own.
class Tally {
  #began = performance.now();
  tokens = 0;
  own = 0;
  first = null;
  took = null;
  detailed = false;
  finish = null;
  usage = null;
  timings = null;

  add(choice) {
    const found = pieces(choice);
    if (found.length > 0) this.first ??= this.#seconds();
    if (choice.outrider?.tokens) this.detailed = true;
    this.tokens += found.length;
    this.own += found.filter(({ drafted }) => !drafted).length;
    this.finish = choice.finish_reason ?? this.finish;
  }

  end() {
    this.took = this.#seconds();
  }

  facts() {
    const tokens = this.usage?.completion_tokens ?? this.tokens;
    const took = this.took ?? this.#seconds();
    const { draft_n: guesses, draft_n_accepted: taken } = this.timings ?? {};
    return [
      ["Tokens", whole(tokens)],
      ["Time", seconds(took)],
      ["First token", this.first === null ? NOTHING : seconds(this.first)],
      ["Speed", tokens > 0 ? `${digits(tokens / took)} tokens/s` : NOTHING],
      ["Tokens per call", this.detailed && this.own > 0 ? digits(this.tokens / this.own) : NOTHING],
      ["Guesses taken", guesses > 0 ? `${percent(taken / guesses)} of ${whole(guesses)}` : NOTHING],
    ];
  }

  #seconds() {
    return (performance.now() - this.#began) / 1000;
  }
}

export class Playground {
  #form = byId("ask");
  #output = byId("output");
  #tree = new TreeView();
  #abort = null;
  #parameters = [];

  constructor() {
    this.#form.elements.method.append(option(""));
    this.#form.elements.accept.append(option(""));
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run();
    });
    this.#form.addEventListener("change", () => this.#choose());
    byId("stop").addEventListener("click", () => this.#abort?.abort());
    byId("playground").addEventListener("keydown", (event) => this.#key(event));
    this.#choose();
    this.#show(null);
    this.#learn();
  }

  /** Asks what parameters there are, and makes their fields. Without an answer the page has those it came with. */
  async #learn() {
    const { parameters } = await get("/parameters").catch(() => ({ parameters: [] }));
    for (const parameter of parameters) {
      const field = this.#form.elements[FIELDS[parameter.name]];
      if (!field) byId("more-fields").append(element("label", { class: "field", title: parameter.help }, parameter.name, control(parameter)));
      else if (parameter.choices) field.append(...parameter.choices.map(option));
      else setAttribute(field, "max", String(parameter.most));
    }
    this.#parameters = parameters;
    this.#choose();
  }

  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#form.requestSubmit();
    if (event.key === "Escape") this.#abort?.abort();
  }

  #choose() {
    const plain = this.#form.elements.speculation.value === "off";
    for (const field of this.#form.querySelectorAll("#draft-fields select, #draft-fields input, #more-fields [name^='draft.']")) field.disabled = plain;
  }

  async #run() {
    if (this.#abort) return;
    this.#begin();
    const tally = new Tally();
    try {
      for await (const chunk of post(...question(this.#form, this.#parameters), this.#abort.signal)) this.#take(chunk, tally);
      this.#end(tally, `Done: ${FINISHES[tally.finish] ?? tally.finish ?? "the stream is over"}.`, "good");
    } catch (error) {
      if (error.name === "AbortError") this.#end(tally, "Stopped.", "calm");
      else this.#end(tally, error instanceof TypeError ? "The coordinator does not answer." : error.message, "bad");
    }
  }

  #begin() {
    this.#abort = new AbortController();
    this.#output.replaceChildren();
    this.#tree.clear();
    this.#busy(true);
    this.#say("Waiting for the first token", "calm");
  }

  #take(chunk, tally) {
    tally.usage = chunk.usage ?? tally.usage;
    tally.timings = chunk.timings ?? tally.timings;
    for (const choice of chunk.choices ?? []) {
      if (tally.tokens === 0 && pieces(choice).length > 0) this.#say("Writing", "calm");
      tally.add(choice);
      this.#write(choice);
      if (choice.outrider?.tree) this.#tree.add(choice.outrider.tree, pieces(choice).at(-1));
    }
    this.#show(tally);
  }

  #write(choice) {
    const colour = Boolean(choice.outrider?.tokens);
    const follows = this.#output.scrollHeight - this.#output.scrollTop - this.#output.clientHeight < 40;
    this.#output.append(...pieces(choice).map(({ text, drafted }) => element("span", colour ? { class: `token ${drafted ? "drafted" : "target"}` } : {}, text)));
    if (follows) this.#output.scrollTop = this.#output.scrollHeight;
  }

  #end(tally, text, state) {
    tally.end();
    this.#show(tally);
    this.#say(text, state);
    this.#abort = null;
    this.#busy(false);
  }

  #busy(busy) {
    // Not `disabled`: that would take the focus away, and with it the keys.
    setAttribute(byId("run"), "aria-disabled", String(busy));
    setAttribute(byId("stop"), "aria-disabled", String(!busy));
    setAttribute(this.#output, "aria-busy", String(busy));
  }

  #say(text, state) {
    setAttribute(byId("outcome"), "data-state", state);
    setText(byId("outcome"), text);
  }

  #show(tally) {
    const facts = (tally ?? new Tally()).facts();
    const list = byId("answer-facts");
    if (list.childElementCount === 0) list.append(...facts.map(([name]) => element("div", {}, element("dt", {}, name), element("dd"))));
    facts.forEach(([, value], index) => setText(list.children[index].lastChild, tally ? value : NOTHING));
  }
}
