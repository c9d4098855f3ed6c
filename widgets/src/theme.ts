// Colours of the page's theme: CSS variables (theme.css) for the DOM, and the same as strings for canvases.

export interface Palette {
  paper: string;
  ink: string;
  muted: string;
  faint: string;
  line: string;
  accent: string;
  onAccent: string;
  focus: string;
  warn: string;
  font: string;
  dark: boolean; // whether the paper is dark: ramps start from the paper
}

/** The current colours; read them again after `onTheme`. */
export function palette(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const read = (name: string, fallback: string) => style.getPropertyValue(`--rfnb-${name}`).trim() || fallback;
  const paper = read("paper", "#ffffff");
  return {
    paper,
    ink: read("ink", "#24292f"),
    muted: read("muted", "#656d76"),
    faint: read("faint", "#afb8c1"),
    line: read("line", "#d8dee4"),
    accent: read("accent", "#0b62b0"),
    onAccent: read("on-accent", "#ffffff"),
    focus: read("focus", "#c2410c"),
    warn: read("warn", "#b3261e"),
    font: read("font", "system-ui, sans-serif"),
    dark: isDark(paper),
  };
}

/** Whether a CSS colour is dark. */
export function isDark(color: string): boolean {
  const [r, g, b] = rgb(color);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 110;
}

/** Red, green and blue, 0 to 255, of a hex or rgb() colour or one of the two names that themes use; else white. */
export function rgb(color: string): [number, number, number] {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(color.trim())?.[1];
  if (hex) {
    const full = hex.length < 6 ? [...hex].map((digit) => digit + digit).join("") : hex;
    return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16)) as [number, number, number];
  }
  const parts = /^rgba?\(([^)]+)\)/i
    .exec(color.trim())?.[1]
    ?.split(/[\s,/]+/)
    .filter(Boolean)
    .map(Number);
  if (parts && parts.length >= 3) return [parts[0]!, parts[1]!, parts[2]!];
  return color.trim() === "black" ? [0, 0, 0] : [255, 255, 255];
}

/** Calls `changed` when the colours of `element` change; returns a function that stops it. Attributes reveal most changes;
 * a style sheet of the new theme takes effect when it is loaded, possibly long after the attribute. An element that the
 * notebook removed from the page while it was scrolled away is checked when it returns. */
export function onTheme(element: HTMLElement, changed: () => void): () => void {
  let frame = 0,
    away = false;
  const now = () => JSON.stringify(palette(element));
  let last = now();
  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      away = !element.isConnected;
      if (away || last === now()) return;
      last = now();
      changed();
    });
  };
  const loaded = ({ target }: Event) => target instanceof HTMLLinkElement && soon();
  const back = typeof IntersectionObserver === "function" ? new IntersectionObserver(() => away && soon()) : null;
  back?.observe(element);
  const observer = new MutationObserver(soon);
  const attributeFilter = [
    "class",
    "theme",
    "style",
    "data-jp-theme-light",
    "data-jp-theme-name",
    "data-theme",
    "data-vscode-theme-kind",
  ];
  const options = { attributes: true, attributeFilter };
  for (const target of [document.documentElement, document.body]) if (target) observer.observe(target, options);
  if (document.head) observer.observe(document.head, { childList: true }); // style elements
  const media = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
  media?.addEventListener("change", soon);
  document.addEventListener("load", loaded, true);
  return () => {
    cancelAnimationFrame(frame);
    observer.disconnect();
    back?.disconnect();
    media?.removeEventListener("change", soon);
    document.removeEventListener("load", loaded, true);
  };
}
