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

// StreamError is a code of docs/guide/streams.md; -1: the client has gone.
type StreamError int64

func (code StreamError) Error() string { return fmt.Sprintf("the stream failed: %d", int64(code)) }

// Read returns the next piece of the request's body; nil at its end.
func Read() ([]byte, error) {
	at := requestRead(65_536)
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

func withBlock(bytes []byte, run func(uint64) int64) error {
	if len(bytes) == 0 {
		return check(run(0))
	}
	block := pdk.AllocateBytes(bytes)
	code := run(block.Offset())
	block.Free()
	return check(code)
}

func check(code int64) error {
	if code < 0 {
		return StreamError(code)
	}
	return nil
}
