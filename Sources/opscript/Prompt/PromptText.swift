import LuaBindings

/// The prompts, which the globals `_PROMPT` and `_PROMPT2` may set.
struct PromptText {
    let runtime: Runtime

    /// The global's value, converted to text once for each prompt. `text` if it is nil.
    func callAsFunction(_ variable: String, default text: String) -> String {
        let script = "local p = _G[...]; return p ~= nil and tostring(p)"
        return (try? runtime.run(script, name: "=prompt", arguments: [.string(variable)]))?.first?.text ?? text
    }
}
