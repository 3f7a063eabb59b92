package main

import "strings"

// handle answers every request: wasm-serve.yaml gives it all methods and URLs.
//
//go:wasmexport handle
func handle() int32 {
	return Serve(answer)
}

func answer(request *Request) Response {
	if request.Path != "/" {
		return Response{Status: 404, Body: []byte("There is nothing at " + request.Path + "\n")}
	}
	if request.Method != "GET" {
		return Response{Status: 405, Headers: map[string][]string{"allow": {"GET"}}}
	}
	name := request.Query["name"].First()
	if name == "" {
		name = "World"
	}
	return Response{
		Headers: map[string][]string{"content-type": {"text/html; charset=utf-8"}},
		Body:    []byte("<h1>Hello, " + escapeHTML.Replace(name) + "!</h1>\n"),
	}
}

var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;")

func main() {}
