import "./styles/base.css";
import "./styles/markdown.css";

import { mount } from "svelte";

import Root from "./Root.svelte";
import { App } from "./state/app.svelte";

const app = new App();
mount(Root, { target: document.getElementById("app")!, props: { app } });
void app.start();
