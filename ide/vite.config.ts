import { svelte, vitePreprocess } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "/",
  plugins: [svelte({ preprocess: vitePreprocess({ script: false }), compilerOptions: { runes: true } })],
  build: {
    outDir: "../gadget_code/static",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // the first with light-dark(), which the appearance is chosen by
    sourcemap: false,
    assetsInlineLimit: 0, // a data: URL is no 'self' for the Content-Security-Policy
    modulePreload: { polyfill: false },
    license: { fileName: "assets/licenses.md" },
    manifest: ".manifest.json",
  },
  server: { port: 5173, proxy: { "/api": "http://127.0.0.1:4270", "/socket.io": { target: "ws://127.0.0.1:4270", ws: true } } },
  test: { include: ["tests/**/*.test.ts"], environment: "node", passWithNoTests: false },
});
