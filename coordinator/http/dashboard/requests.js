// Requests of the page to the coordinator, and streamed answers: server-sent events of a POST, which EventSource cannot make.

/** An address of this coordinator. A page that was opened with a key in its address would make requests with it, which browsers refuse. */
export const here = (path) => new URL(path, location.origin);

/** An Error with the words of the API. */
export async function refusal(response) {
  const text = await response.text();
  try {
    return new Error(JSON.parse(text).error.message);
  } catch {
    return new Error(`The coordinator answers ${response.status} ${response.statusText}.`);
  }
}

/** The answer at a path, as an object. */
export async function get(path) {
  const response = await fetch(here(path));
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// Bytes to lines, which end in "\n" or "\r\n".
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const line of parts) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
}

/** The objects of a stream, in order, until it says [DONE]. */
export async function* post(path, body, signal) {
  const response = await fetch(here(path), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  if (!response.ok) throw await refusal(response);
  for await (const line of lines(response.body)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    yield chunk;
  }
  throw new Error("The stream broke off: the text is not whole.");
}
