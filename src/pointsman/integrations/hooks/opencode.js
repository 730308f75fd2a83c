// Hints of Pointsman for an agent that is stuck, in opencode: a plugin that passes on what tools answered and what a
// person said. Where Pointsman is missing, slow or fails, opencode goes on without, and this file says so once.
import { spawn } from "node:child_process"

const COMMAND = ["pointsman", "hook", "opencode"]
const PATIENCE = 10_000 // milliseconds

export const Pointsman = async ({ directory }) => {
  let isTold = false
  const tell = (why) => {
    if (!isTold) console.error(`pointsman: ${why}; opencode goes on without hints`)
    isTold = true
  }

  const answer = (event) =>
    new Promise((done) => {
      let said = ""
      let failed = ""
      const child = spawn(COMMAND[0], COMMAND.slice(1), { timeout: PATIENCE })
      const end = (why) => {
        if (why) tell(why)
        done(why ? "" : said)
      }
      child.on("error", (error) => end(error.message))
      child.on("close", (code, signal) => end(code === 0 ? "" : failed.trim() || `ended by ${signal ?? code}`))
      child.stdout.on("data", (data) => (said += data))
      child.stderr.on("data", (data) => (failed += data))
      child.stdin.on("error", () => {}) // it has ended: "close" tells
      child.stdin.end(JSON.stringify(event))
    })

  const hint = async (event) => {
    try {
      const said = await answer({ cwd: directory, ...event })
      const found = said ? JSON.parse(said) : {}
      return found.hookSpecificOutput?.additionalContext ?? found.stopReason ?? ""
    } catch (error) {
      tell(String(error))
      return ""
    }
  }

  return {
    "chat.message": async ({ sessionID }, { parts }) => {
      const prompt = parts.map((part) => (part.type === "text" && !part.synthetic ? part.text : "")).join("\n")
      const said = await hint({ hook_event_name: "UserPromptSubmit", session_id: sessionID, prompt })
      const last = parts.findLast((part) => part.type === "text")
      if (said && last) last.text += `\n\n${said}`
    },
    "tool.execute.after": async ({ tool, sessionID, args }, result) => {
      const text = String(result.output ?? "")
      const exit = result.metadata?.exit
      const isFailed = typeof exit === "number" && exit !== 0
      const said = await hint({
        hook_event_name: isFailed ? "PostToolUseFailure" : "PostToolUse",
        session_id: sessionID,
        tool_name: tool,
        tool_input: args ?? {},
        tool_response: text,
        error: isFailed ? text : "",
      })
      if (said) result.output = `${text}\n\n${said}`
    },
  }
}
