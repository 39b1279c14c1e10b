// The live feed of a page: one socket, or polling where there is none. The protocol: docs/live.md.
//
//   live.watch(["jobs?state=dead"], { show(frame) {...}, reload() {...} });
//
// `show` draws what a frame tells; `reload` reads the page's part again, after a gap that cannot be
// told. A hidden page lets go of its socket, and catches up when it is looked at again.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 30_000;
const LASTED = 10_000;
const SOCKET_TRIES = 3; // without ever opening, before polling
const SOCKET_AGAIN = 60_000; // while polling
const HIDDEN_FOR = 10_000;
const POLL_SECONDS = 5;
const FINAL = new Set([4400, 4401, 4403]);
const NO_FEED = 4501;
const OPEN = 1;

export class Live extends EventTarget {
  #socketUrl;
  #pollUrl;
  #watchers = [];
  #topics = new Set();
  #socket = null;
  #timers = new Map();
  #seq = null;
  #tries = 0;
  #everOpened = false;
  #opened = 0;
  #polling = false;
  #asked = null;
  #stopped = false;
  state = "off";
  paused = false;

  constructor({ socket, poll, seq = null }) {
    super();
    this.#seq = seq || null;
    this.#socketUrl = socket;
    this.#pollUrl = poll;
    window.addEventListener("online", () => this.#again());
    window.addEventListener("offline", () => this.#leave("offline"));
    window.addEventListener("pagehide", () => this.#close());
    window.addEventListener("pageshow", (event) => event.persisted && this.#again());
    document.addEventListener("visibilitychange", () => this.#look());
  }

  watch(topics, watcher) {
    this.#watchers.push(watcher);
    const fresh = topics.filter((topic) => !this.#topics.has(topic));
    fresh.forEach((topic) => this.#topics.add(topic));
    if (fresh.length && this.#socket?.readyState === OPEN) {
      this.#send({ op: "sub", topics: fresh });
    }
    return () => {
      this.#watchers = this.#watchers.filter((each) => each !== watcher);
    };
  }

  start() {
    this.#connect();
  }

  pause() {
    this.paused = true;
    this.#leave("paused");
  }

  resume() {
    this.paused = false;
    this.#again();
  }

  // How long the next try waits: longer each time, and not the same for everybody.
  static pause(tries, random = Math.random()) {
    return Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** tries) * (0.5 + random / 2);
  }

  // The socket

  #connect() {
    if (this.paused || this.#stopped || this.#socket) return;
    if (!navigator.onLine) return this.#become("offline");
    if (!this.#socketUrl || !this.#topics.size) return this.#poll();
    let socket;
    try {
      socket = new WebSocket(new URL(this.#socketUrl, location.href.replace(/^http/, "ws")));
    } catch {
      return this.#poll();
    }
    this.#socket = socket;
    socket.onopen = () => {
      this.#everOpened = true;
      this.#opened = Date.now();
      this.#endPolling();
      const after = this.#seq ? { after: this.#seq } : {};
      this.#send({ op: "sub", topics: [...this.#topics], ...after });
    };
    socket.onmessage = (message) => socket === this.#socket && this.#handle(JSON.parse(message.data));
    socket.onclose = (event) => socket === this.#socket && this.#closed(event.code);
  }

  #closed(code) {
    this.#socket = null;
    if (FINAL.has(code)) return this.#end(code);
    if (code === NO_FEED) return this.#poll();
    if (this.#opened && Date.now() - this.#opened > LASTED) this.#tries = 0;
    this.#opened = 0;
    if (this.#polling) return this.#later("socket", SOCKET_AGAIN, () => this.#connect());
    if (!this.#everOpened && this.#tries + 1 >= SOCKET_TRIES) {
      this.#poll();
      return this.#later("socket", SOCKET_AGAIN, () => this.#connect());
    }
    this.#become(navigator.onLine ? "reconnecting" : "offline");
    this.#later("socket", Live.pause(this.#tries++), () => this.#connect());
  }

  #handle(message) {
    switch (message.op) {
      case "ready":
        // Without a place to begin at, something may have happened since the page was made.
        if (this.#seq === null) this.#reload();
        this.#seq = message.seq;
        this.#become(message.feed === "away" ? "reconnecting" : "live");
        break;
      case "frame":
        if (message.prev !== this.#seq) return this.#send({ op: "replay", after: this.#seq });
        this.#tell(message);
        this.#seq = message.seq;
        this.#send({ op: "ack", seq: message.seq });
        break;
      case "resync":
        this.#seq = message.seq;
        this.#send({ op: "ack", seq: message.seq });
        this.#reload(message.within);
        break;
      case "status":
        this.#become(message.feed === "away" ? "reconnecting" : "live");
        break;
      case "error":
        console.warn("live feed:", message.code, message.message);
        break;
    }
  }

  #send(message) {
    if (this.#socket?.readyState === OPEN) this.#socket.send(JSON.stringify(message));
  }

  // Polling

  #poll() {
    if (this.paused || this.#stopped || this.#polling || !this.#pollUrl) {
      if (!this.#pollUrl) this.#become("offline");
      return;
    }
    this.#polling = true;
    this.#ask();
  }

  async #ask() {
    const url = new URL(this.#pollUrl, location.href);
    for (const topic of this.#topics) url.searchParams.append("topics", topic);
    if (this.#seq) url.searchParams.set("after", this.#seq);
    let every = POLL_SECONDS;
    this.#asked = new AbortController();
    try {
      const answer = await fetch(url, {
        headers: { Accept: "application/json" },
        signal: this.#asked.signal,
      });
      if (answer.status === 401) return this.#end(4401);
      if (answer.status === 403) return this.#end(4403);
      if (!answer.ok) throw new Error(answer.status);
      const found = await answer.json();
      every = found.every ?? POLL_SECONDS;
      this.#tries = 0;
      this.#become("polling");
      if (found.op === "resync") this.#reload(found.within);
      else this.#tell(found);
      if (found.feed === "off") this.#reload(0); // no events will come: look for oneself
      this.#seq = found.seq ?? this.#seq;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#become(navigator.onLine ? "reconnecting" : "offline");
      every = Math.max(every, Live.pause(this.#tries++) / 1000);
    }
    if (this.#polling) this.#later("poll", every * 1000, () => this.#ask());
  }

  #endPolling() {
    this.#polling = false;
    this.#asked?.abort();
    this.#cancel("poll");
  }

  // Coming and going

  #look() {
    if (document.hidden) {
      this.#later("hidden", HIDDEN_FOR, () => this.#close());
    } else {
      this.#cancel("hidden");
      if (!this.#socket && !this.#polling) this.#again();
    }
  }

  #again() {
    if (this.paused || this.#stopped) return;
    this.#tries = 0;
    this.#cancel("socket");
    this.#connect();
  }

  #leave(state) {
    if (this.#stopped || (this.paused && state !== "paused")) return;
    this.#close();
    this.#become(state);
  }

  #close() {
    this.#cancel("socket");
    this.#endPolling();
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #end(code) {
    this.#stopped = true;
    this.#close();
    this.#become("offline");
    this.dispatchEvent(new CustomEvent("ended", { detail: code }));
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #tell(frame) {
    for (const watcher of this.#watchers) {
      try {
        watcher.show?.(frame);
      } catch (error) {
        console.error(error); // the other parts of the page go on
      }
    }
  }

  #reload(within = 0) {
    this.#later("reload", Math.random() * within * 1000, () => {
      for (const watcher of this.#watchers) watcher.reload?.();
    });
  }

  #later(name, milliseconds, call) {
    this.#cancel(name);
    this.#timers.set(name, setTimeout(call, milliseconds));
  }

  #cancel(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }
}

const { live: socket, poll, seq } = document.body.dataset;

/** The page's one feed; null where the reader may not see jobs. */
export const live = socket === undefined ? null : new Live({ socket, poll, seq });
