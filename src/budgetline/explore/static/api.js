// Requests to the server on this machine. The token is kept for this tab and never put into an address.

export class Refused extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}
export class Lost extends Error {}

let token = "";
export function findToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) setToken(given);
  if (location.hash) history.replaceState(null, "", location.pathname);
  token = sessionStorage.getItem("token") ?? "";
  return token !== "";
}
export function setToken(text) {
  token = text.trim();
  sessionStorage.setItem("token", token);
}

async function request(path, body) {
  const headers = { "X-Budgetline-Token": token };
  const options = { headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) }), headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Lost("The connection to budgetline is lost.");
  }
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw new Refused(error ?? { code: "failed", message: `The server returned status ${answer.status}.` });
}

export async function call(path, body) {
  const answer = await request(path, body);
  try {
    return await answer.json();
  } catch {
    throw new Lost("The response was cut off.");
  }
}

export async function download(what) {
  const answer = await request("/api/download", { what });
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? what;
  return { blob: await answer.blob(), name };
}
