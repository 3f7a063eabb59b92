// A plug-in for hyper-mcp, version 2 of its interface: a tool and a prompt. It sends messages while it works.
package main

import (
	"fmt"

	"github.com/extism/go-pdk"
)

type object = map[string]any

//go:wasmimport extism:host/user notify_logging_message
func notifyLoggingMessage(uint64)

//go:wasmimport extism:host/user notify_progress
func notifyProgress(uint64)

//go:wasmimport extism:host/user notify_tool_list_changed
func notifyToolListChanged()

//go:wasmexport list_tools
func listTools() int32 {
	schema := object{"type": "object", "properties": object{"name": object{"type": "string"}}}
	tool := object{"name": "go_greet", "description": "Greets a person.", "inputSchema": schema}
	return answer(object{"tools": []object{tool}})
}

//go:wasmexport call_tool
func callTool() int32 {
	var input struct {
		Request struct {
			Arguments struct {
				Name string `json:"name"`
			} `json:"arguments"`
		} `json:"request"`
		Context struct {
			Meta object `json:"_meta"`
		} `json:"context"`
	}
	if err := pdk.InputJSON(&input); err != nil {
		return fail(err)
	}
	name := input.Request.Arguments.Name
	if name == "" {
		return fail(fmt.Errorf("the name is missing"))
	}
	send(notifyLoggingMessage, object{"level": "warning", "logger": "go", "data": "greeting"})
	if token, found := input.Context.Meta["progressToken"]; found {
		send(notifyProgress, object{"progressToken": token, "progress": 1, "message": "half"})
	}
	notifyToolListChanged()
	text := object{"type": "text", "text": "Hello " + name + " from Go"}
	return answer(object{"content": []object{text}})
}

//go:wasmexport list_prompts
func listPrompts() int32 {
	return answer(object{"prompts": []object{{"name": "go_prompt", "description": "A prompt."}}})
}

//go:wasmexport get_prompt
func getPrompt() int32 {
	content := object{"type": "text", "text": "made in Go"}
	return answer(object{"messages": []object{{"role": "user", "content": content}}})
}

func send(notify func(uint64), message object) {
	if memory, err := pdk.AllocateJSON(message); err == nil {
		notify(memory.Offset())
	}
}

func answer(output object) int32 {
	if err := pdk.OutputJSON(output); err != nil {
		return fail(err)
	}
	return 0
}

func fail(err error) int32 {
	pdk.SetError(err)
	return -1
}

func main() {}
