import type { Render } from "../context";

export const render: Render = (el) => { el.textContent = "attention"; return { update() {}, destroy() {} }; };
