// A loop over tools with the Vercel AI SDK. Run by scripts/try_agents.py in the folder of the packages:
//   node ai_sdk.mjs PROVIDER BASE_URL KEY MODEL FOLDER TASK
import { readFileSync, writeFileSync, readdirSync } from "node:fs";
import { execSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [provider, baseURL, apiKey, model, folder, task] = process.argv.slice(2);
const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { streamText, generateText, tool, stepCountIs } = await load("ai");
const { z } = await load("zod");

const models = {
  openai: async () => (await load("@ai-sdk/openai")).createOpenAI({ baseURL, apiKey })(model),
  anthropic: async () => (await load("@ai-sdk/anthropic")).createAnthropic({ baseURL, apiKey })(model),
  compatible: async () =>
    (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "any", baseURL, apiKey })(model),
};
const run = ({ command }) => execSync(command, { cwd: folder, encoding: "utf8", stdio: "pipe" });
const settings = {
  model: await models[provider](),
  prompt: task,
  stopWhen: stepCountIs(12),
  tools: {
    listFiles: tool({ description: "List the files.", inputSchema: z.object({}), execute: () => readdirSync(folder).join("\n") }),
    readFile: tool({ description: "Read a file.", inputSchema: z.object({ path: z.string() }), execute: ({ path }) => readFileSync(path, "utf8") }),
    writeFile: tool({ description: "Write a file.", inputSchema: z.object({ path: z.string(), content: z.string() }), execute: ({ path, content }) => { writeFileSync(path, content); return "written"; } }),
    runCommand: tool({ description: "Run a command.", inputSchema: z.object({ command: z.string() }), execute: run }),
  },
};
if (process.env.WHOLE) {
  console.log((await generateText(settings)).text);
} else {
  const answer = streamText({ ...settings, onError: ({ error }) => { throw error; } });
  for await (const text of answer.textStream) process.stdout.write(text);
  console.log();
}
