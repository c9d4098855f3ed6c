import type { Render } from "../context";

export const render: Render = (el) => { el.textContent = "states"; return { update() {}, destroy() {} }; };
