// A page that runs its model (rfnb/viz/runnable/page.py): input fields, and below them the views, which follow. The same script is also the
// worker that computes.

import { h, on, set } from "../dom";
import type { AnyHead, Frame } from "../frame";
import { exactBlock } from "../frame";
import type { PlainFrame } from "../engine/frames";
import { mount } from "../mount";
import type { Mounted } from "../mount";
import { short } from "../number";
import { busOf } from "../selection";
import { visible } from "../visible_text";
import type { Message, Typed } from "./host";
import { Host } from "./host";
import { bytesOf, sumOf } from "./payload";

interface Field {
  name: string;
  value: string | number;
  range?: [number, number, number];
}
interface About {
  fields: Field[];
  title: string;
  sum: number; // Adler's, of the bytes of the program
  fixed: string; // further arguments of the function
  said: string; // about its weights
  first?: string[]; // the kinds of views that are open, in this order; others are folded
}
/** The files that several pages in a folder share (rfnb/site/lesson_pages.py): the code of this script, and programs in base 85. */
interface Shared {
  rfnbPage?: () => void;
  rfnbPrograms?: Record<string, string>;
}
const shared = globalThis as Shared;
const PATIENCE = 3000; // ms until a silent worker counts as missing

/** The host, in a worker where there can be one. */
function hosted(code: string, heard: (message: Message) => void): (message: Message) => void {
  const here = () => {
    const host = new Host(heard);
    return (message: Message) => host.hear(message);
  };
  let send: ((message: Message) => void) | null = null,
    first: Message[] = []; // messages to a worker that may turn out to be missing
  const local = () => {
    if (send) return;
    send = here();
    for (const message of first) send(message);
    first = [];
  };
  let worker: Worker;
  try {
    worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  } catch {
    local();
    return (message) => send!(message);
  }
  worker.onerror = (event) => (event.preventDefault(), local());
  const patience = setTimeout(local, PATIENCE);
  worker.onmessage = ({ data }: MessageEvent<Message>) => {
    clearTimeout(patience);
    if (send && first.length === 0 && data.rfnb === "hello") return worker.terminate(); // it came too late
    if (data.rfnb !== "hello") return heard(data);
    send = (message) => worker.postMessage(message);
    for (const message of first) send(message);
    first = [];
  };
  return (message) => (send ? send(message) : void first.push(message));
}

export class Page {
  private readonly fields = new Map<string, HTMLInputElement>();
  private readonly said = h("p.rfnb-page-said", { role: "status", "aria-live": "polite" });
  private readonly failed = h("p.rfnb-page-failed", { role: "alert", hidden: "" });
  private readonly place = h("div.rfnb-page-views");
  private readonly send: (message: Message) => void;
  private view: Mounted | null = null;
  private waits = false; // whether the host is processing input
  private again = false;
  private begun = 0;
  private step: number | null = null; // at which the page opens
  private stray = ""; // names in the link that are not fields
  private readonly listeners = new Set<(message: unknown, buffers: DataView[]) => void>();

  constructor(
    private readonly main: HTMLElement,
    private readonly about: About,
    bytes: Uint8Array,
    code: string,
  ) {
    const form = h("form.rfnb-page-fields");
    on(form, "submit", (event) => event.preventDefault());
    for (const { name, value, range } of about.fields) {
      const [min = 0, max = 0, step = 1] = range ?? [];
      const field =
        typeof value === "string"
          ? h("input", { name, value, type: "text", spellcheck: false, autocapitalize: "off", autocomplete: "off" })
          : h("input", { name, value, type: "number", min, max, step });
      on(field, "input", () => this.type());
      this.fields.set(name, field);
      form.append(h("label", `${visible(name)} `, field));
    }
    if (about.fixed) form.append(h("span.rfnb-page-fixed", about.fixed));
    const picture = main.querySelector(".rfnb-picture");
    (picture ?? main.lastElementChild)!.before(form, this.said, this.failed, this.place);
    this.follow();
    globalThis.addEventListener("hashchange", () => this.follow() && this.type());
    this.said.textContent = "Loading the model …";
    this.send = hosted(code, (message) => this.hear(message));
    this.send({ rfnb: "program", bytes, first: about.first });
    this.type();
  }

  /** What is typed; a sentence where a number is none that its field may have. */
  private get typed(): Typed | string {
    const typed: Typed = { text: "", inputs: {} };
    let wrong = "";
    for (const { name, value, range } of this.about.fields) {
      const field = this.fields.get(name)!;
      if (typeof value === "string") typed.text = field.value;
      else {
        const number = (typed.inputs[name] = field.value === "" ? NaN : Number(field.value)),
          [low, high] = range!,
          whole = [value, ...range!].every(Number.isInteger),
          isIn = number >= low && number <= high && (!whole || Number.isInteger(number));
        set(field, "aria-invalid", !isIn);
        if (!isIn)
          wrong ||= `${visible(name)} is a ${whole ? "whole " : ""}number from ${short(low)} to ${short(high)}.`;
      }
    }
    return wrong || typed;
  }

  /** The content of a link: #word=parachute&step=4. */
  private follow(): boolean {
    const given = new URLSearchParams(location.hash.slice(1)),
      step = given.get("step");
    const stray = [...given].filter(([name, value]) => value && name !== "step" && !this.fields.has(name));
    let any = step !== null && !this.fields.has("step");
    this.step = any ? Number(step) : null;
    any ||= stray.length > 0;
    this.stray = stray.length
      ? `The link gives ${listed(stray.map(([name]) => name))}; the fields here are ${listed([...this.fields.keys()])}.`
      : "";
    for (const [name, field] of this.fields) {
      const value = given.get(name);
      if (value === null || value === field.value) continue;
      field.value = value;
      any = true;
    }
    return any;
  }

  /** Sends the newest input; it waits while the host is busy. */
  private type(): void {
    if (this.waits) {
      this.again = true;
      return;
    }
    const { typed } = this;
    if (typeof typed === "string") return this.fail(typed);
    this.waits = true;
    this.begun = performance.now();
    this.send({ rfnb: "typed", ...typed });
  }

  private hear(message: Message): void {
    for (const heard of this.listeners) heard(message, []);
    if (!["frame", "failed"].includes(message.rfnb)) return;
    if (message.rfnb === "failed") this.fail(message["words"] as string);
    if (message.rfnb === "frame")
      this.show(message["frame"] as PlainFrame, message["said"] as string, (message["typed"] as Typed).text);
    this.waits = false;
    if (!this.again) return;
    this.again = false;
    this.type();
  }

  private show(plain: PlainFrame, said: string, text: string): void {
    const frame: Frame = {
      kind: plain.kind,
      head: plain.head as AnyHead,
      blocks: Object.fromEntries(
        Object.entries(plain.blocks).map(([name, { data, shape }]) => [name, exactBlock(data, shape)]),
      ),
    };
    if (this.view) this.view.update(frame);
    else {
      this.main.querySelector(".rfnb-picture")?.remove();
      this.view = mount(this.place, frame, {
        send: (message) => this.send(message as Message),
        listen: (heard) => {
          this.listeners.add(heard);
          return () => void this.listeners.delete(heard);
        },
      });
    }
    const { parts } = plain.head as { parts: { kind: string; head: AnyHead }[] },
      search = parts.find(({ kind }) => kind === "beams") ?? parts.at(-1);
    if (this.step !== null) busOf(String(frame.head.link), search?.head.axis ?? "").point({ step: this.step }, {});
    this.step = null;
    this.failed.hidden = true;
    this.place.classList.remove("rfnb-page-old");
    this.said.textContent = [said, this.about.said, this.stray].filter(Boolean).join(" · ");
    set(this.main, "data-ms", (performance.now() - this.begun).toFixed(1));
    set(this.main, "data-shown", text);
  }

  private fail(words: string): void {
    this.failed.textContent = words;
    this.failed.hidden = false;
    this.said.textContent = this.view ? "The views below show the previous input." : "";
    this.place.classList.add("rfnb-page-old");
  }
}

const listed = (names: string[]): string => names.map(visible).join(", ");

/** Shows the content of the page; unreadable data becomes a sentence. */
function start(main: HTMLElement, code: string): void {
  main.querySelector(".rfnb-page-still")?.remove();
  const held = main.querySelector<HTMLElement>(".rfnb-program");
  try {
    const about = JSON.parse(held?.dataset["about"] ?? "") as About,
      { bytes: own, of } = held?.dataset ?? {},
      bytes = bytesOf(own ?? shared.rfnbPrograms?.[of ?? ""] ?? "");
    if (sumOf(bytes) !== about.sum) throw new Error("its bytes have changed since it was written");
    new Page(main, about, bytes, code);
  } catch (error) {
    console.warn("rfnb:", error);
    const said = h("p.rfnb-page-failed", { role: "alert" }, "This page is damaged: save it again.");
    (main.querySelector("h1") ?? main.appendChild(h("h1"))).after(said); // above the picture, which stays
  }
}

if (typeof document === "undefined") {
  const scope = self as unknown as { postMessage(message: object, moved?: Transferable[]): void; onmessage: unknown };
  const host = new Host((message) => scope.postMessage(message));
  scope.onmessage = ({ data }: MessageEvent<Message>) => host.hear(data);
  scope.postMessage({ rfnb: "hello" });
} else {
  const main = document.querySelector<HTMLElement>("main.rfnb-page");
  if (main) start(main, document.currentScript?.textContent || (shared.rfnbPage ? `(${shared.rfnbPage})()` : ""));
}
