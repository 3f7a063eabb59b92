package main

// wasm-serve's streams: copy this file into your plug-in.

import (
	"fmt"

	"github.com/extism/go-pdk"
)

//go:wasmimport wasm-serve:http request_read
func requestRead(max uint64) int64

//go:wasmimport wasm-serve:http response_start
func responseStart(head uint64) int64

//go:wasmimport wasm-serve:http response_write
func responseWrite(block uint64) int64

//go:wasmimport wasm-serve:http response_trailers
func responseTrailers(trailers uint64) int64

//go:wasmimport wasm-serve:http sse
func sse(event uint64) int64

//go:wasmimport wasm-serve:http wait
func wait(ms uint64) int64

//go:wasmimport wasm-serve:http http_open
func httpOpen(request uint64) int64

//go:wasmimport wasm-serve:http http_write
func httpWrite(request int64, block uint64) int64

//go:wasmimport wasm-serve:http http_response
func httpResponse(request int64) int64

//go:wasmimport wasm-serve:http http_read
func httpRead(request int64, max uint64) int64

//go:wasmimport wasm-serve:http http_close
func httpClose(request int64) int64

// StreamError is a code of docs/write/streams.md; -1: the client has gone.
type StreamError int64

func (code StreamError) Error() string { return fmt.Sprintf("the stream failed: %d", int64(code)) }

// Read returns the next piece of the request's body; nil at its end.
func Read() ([]byte, error) {
	at := requestRead(262_144)
	if at <= 0 {
		return nil, check(at)
	}
	memory := pdk.FindMemory(uint64(at))
	return memory.ReadBytes(), nil
}

// Start starts the answer. The head is JSON: {"status":200,"headers":{},"trailers":[]}.
func Start(head string) error { return withBlock([]byte(head), responseStart) }

// Write sends bytes, soon. It waits while the client reads more slowly.
func Write(bytes []byte) error { return withBlock(bytes, responseWrite) }

// Trailers sets the trailers that Start has announced, as JSON.
func Trailers(json string) error { return withBlock([]byte(json), responseTrailers) }

// Event sends an event: {"event":"tick","id":"1","data":"text"}. The first one starts the answer.
func Event(json string) error { return withBlock([]byte(json), sse) }

// Pause waits, without using up the time limit of the call.
func Pause(ms uint64) error { return check(wait(ms)) }

// Request is a request to another server.
type Request struct{ handle int64 }

// Open begins a request: {"url":"https://example.com/","method":"PUT","headers":{"x-a":"1"}}.
func Open(json string) (Request, error) {
	handle := blockCode([]byte(json), httpOpen)
	return Request{handle}, check(handle)
}

// Write sends a piece of the body, of up to 256 KiB. It waits while the server reads more slowly. False: nothing was sent,
// because the answer has to be read first.
func (request Request) Write(piece []byte) (bool, error) {
	if len(piece) == 0 {
		return true, nil
	}
	code := blockCode(piece, func(at uint64) int64 { return httpWrite(request.handle, at) })
	return code == 0, check(code)
}

// End ends the body. A wait for the answer does so, too.
func (request Request) End() error { return check(httpWrite(request.handle, 0)) }

// Response returns status and headers of the answer, as JSON that Start takes.
func (request Request) Response() (string, error) {
	head, err := take(httpResponse(request.handle))
	return string(head), err
}

// Read returns the next piece of the answer; nil at its end.
func (request Request) Read() ([]byte, error) { return take(httpRead(request.handle, 262_144)) }

// Close closes the connection, if the answer is not complete.
func (request Request) Close() { httpClose(request.handle) }

// take returns the bytes of a block, and frees it.
func take(at int64) ([]byte, error) {
	if at <= 0 {
		return nil, check(at)
	}
	memory := pdk.FindMemory(uint64(at))
	defer memory.Free()
	return memory.ReadBytes(), nil
}

func withBlock(bytes []byte, run func(uint64) int64) error { return check(blockCode(bytes, run)) }

func blockCode(bytes []byte, run func(uint64) int64) int64 {
	if len(bytes) == 0 {
		return run(0)
	}
	block := pdk.AllocateBytes(bytes)
	defer block.Free()
	return run(block.Offset())
}

func check(code int64) error {
	if code < 0 {
		return StreamError(code)
	}
	return nil
}
