import { defineConfig } from "vitest/config";

// A limit says "it hangs", never "it is slow": the default of 5 seconds is reached on a machine that is busy.
export default defineConfig({
  test: { environment: "jsdom", include: ["tests/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 120_000 },
});
