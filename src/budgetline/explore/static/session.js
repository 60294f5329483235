// The page's view of the server: the state, the results, and a queue of edits that are sent one after another.

import { Lost, call } from "./api.js";

// What a part holds if it could not be computed.
const NOTHING = { steps: [], rows: [], effects: [], methods: [], curve: null, training: null, plan: null };
const pause = ms => new Promise(done => setTimeout(done, ms));

export class Session {
  snapshot = null;
  parts = {};
  computing = false;
  progress = null;
  lost = false;
  ended = false;
  #queue = [];
  #sending = false;
  #serial = 0;
  #confirmed = -1;
  #changed;
  #trouble;

  // `changed(refused)` draws the page, also when an edit begins to wait; `trouble(error)` shows an error.
  constructor(changed, trouble) {
    this.#changed = changed;
    this.#trouble = trouble;
  }
  get state() { return this.snapshot.state; }
  get pending() { return this.#queue.length; }

  async open() {
    this.snapshot = await call("/api/state");
    this.#changed();
    this.#listen();
  }

  // Queue an edit: an object, a list of objects (one step of undo), or a function of the newest state that returns one,
  // now or later (null: nothing to do). An edit with `instead` replaces a waiting one of the same kind.
  edit(what, instead = "") {
    return this.#push("/api/edit", instead, async () => {
      const found = typeof what === "function" ? await what(this.state) : what;
      if (!found || (Array.isArray(found) && !found.length)) return null;
      return { edits: Array.isArray(found) ? found : [found] };
    });
  }
  undo() { return this.#push("/api/undo", "", () => (this.snapshot.undo_label === null ? null : {})); }
  redo() { return this.#push("/api/redo", "", () => (this.snapshot.redo_label === null ? null : {})); }

  // End the server, after all edits; nothing is asked of it any more.
  async stop() {
    await this.edit(() => null);
    await call("/api/close", {});
    this.ended = true;
    this.#changed();
  }

  #push(path, instead, body) {
    if (this.ended) return Promise.resolve(false);
    const waiting = this.#sending ? 1 : 0;
    if (instead && this.#queue.length > waiting && this.#queue.at(-1).instead === instead) this.#queue.pop().done(false);
    const sent = new Promise(done => this.#queue.push({ path, body, instead, done }));
    this.#changed();
    this.#send();
    return sent;
  }

  async #send() {
    if (this.#sending) return;
    this.#sending = true;
    while (this.#queue.length) {
      const job = this.#queue[0], before = this.snapshot.revision;
      let applied = false, error = null;
      try {
        const body = await job.body();
        if (body) this.snapshot = await call(job.path, body);
        applied = body !== null;
      } catch (found) {
        if (found instanceof Lost) {
          await this.#reach();
          // After a lost answer, a new revision means that the edit arrived.
          if (this.snapshot.revision === before) continue;
          applied = true;
        } else error = found; // refused, or a file that cannot be read
      }
      this.#queue.shift();
      job.done(applied);
      if (error) this.#trouble(error);
      if (!this.#queue.length || error) this.#changed(error !== null);
    }
    this.#sending = false;
  }

  // Wait until the server answers again, and take its state.
  async #reach() {
    for (let wait = 300; ; wait = Math.min(2 * wait, 3000)) {
      await pause(wait);
      try {
        this.snapshot = await call("/api/state");
        this.#setLost(false);
        return;
      } catch (error) {
        if (error.code === "token") return this.#end(error);
        this.#setLost(true);
      }
    }
  }
  // Another server answers, which this page may not read: nothing goes on here.
  #end(error) {
    this.#trouble(error);
    return new Promise(() => {});
  }
  #setLost(lost) {
    if (lost === this.lost) return;
    this.lost = lost;
    this.#changed();
  }

  async #listen() {
    for (;;) {
      try {
        await this.#take(await call(`/api/results?after=${this.#serial}&wait=25`));
      } catch (error) {
        if (this.ended) return;
        if (error.code === "token") await this.#end(error);
        if (!(error instanceof Lost)) this.#trouble(error);
        this.#setLost(error instanceof Lost);
        await this.#reach();
        this.#changed();
      }
    }
  }
  async #take(answer) {
    this.#serial = answer.serial;
    this.#confirmed = answer.revision;
    for (const [name, part] of Object.entries(answer.parts)) this.parts[name] = part.error ? { ...NOTHING, ...part } : part;
    for (const [name, part] of Object.entries(this.parts)) part.current = answer.current?.[name] ?? part.current;
    this.computing = answer.computing;
    this.progress = answer.progress;
    this.#setLost(false);
    // Another tab has edited.
    if (answer.revision > this.snapshot.revision && !this.#sending) {
      const found = await call("/api/state");
      if (!this.#sending && found.revision > this.snapshot.revision) this.snapshot = found;
    }
    this.#changed();
  }
  // A part of the results, or null; and whether it belongs to what is on the screen.
  part(name) {
    const found = this.parts[name];
    return found && !found.empty ? found : null;
  }
  fresh(name) {
    return this.pending === 0 && this.#confirmed >= this.snapshot.revision && this.parts[name]?.current === true;
  }
}
