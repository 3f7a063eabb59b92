package main

import "github.com/extism/go-pdk"

type greeting struct {
	Message string `json:"message"`
}

// Greets whoever the input names.
//
//go:wasmexport hello
func hello() int32 {
	if err := pdk.OutputJSON(greeting{"🦀 Hello " + pdk.InputString()}); err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}

func main() {}
