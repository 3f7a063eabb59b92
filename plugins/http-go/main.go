package main

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Answers all requests of a route such as `/*`.
//
//go:wasmexport handle
func handle() int32 {
	return Serve(route)
}

func route(request *Request) Response {
	name, isHello := strings.CutPrefix(request.Path, "/hello/")
	switch {
	case isHello && (request.Method == "GET" || request.Method == "HEAD"):
		return hello(request, name)
	case request.Method == "POST" && request.Path == "/echo":
		return echo(request)
	case request.Method == "POST" && request.Path == "/login":
		return login(request)
	}
	return asJSON(404, map[string]string{"error": "not found"})
}

// GET /hello/Bob?greeting=Hi
func hello(request *Request, name string) Response {
	greeting := request.Query["greeting"].First()
	if greeting == "" {
		greeting = "Hello"
	}
	return asJSON(200, map[string]string{"message": "🦀 " + greeting + " " + name})
}

// POST /echo: the same bytes, as what they were sent.
func echo(request *Request) Response {
	kind := request.Headers["content-type"].First()
	if kind == "" {
		kind = "application/octet-stream"
	}
	return Response{Headers: map[string][]string{"content-type": {kind}}, Body: request.Body()}
}

var odd = regexp.MustCompile("[^A-Za-z0-9]")

// POST /login with a name: two cookies, and on to the greeting.
func login(request *Request) Response {
	name := odd.ReplaceAllString(string(request.Body()), "")
	return Response{Status: 303, Headers: map[string][]string{
		"set-cookie": {"user=" + name + "; HttpOnly", "seen=1"},
		"location":   {"/hello/" + name},
	}}
}

func asJSON(status int, value any) Response {
	body, err := json.Marshal(value)
	if err != nil {
		return Response{Status: 500}
	}
	return Response{Status: status, Headers: map[string][]string{"content-type": {"application/json"}}, Body: body}
}

func main() {}
