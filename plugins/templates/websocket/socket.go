package main

// wasm-serve's WebSockets: copy this file into your plug-in.

import (
	"errors"
	"fmt"

	"github.com/extism/go-pdk"
)

//go:wasmimport wasm-serve:http ws_receive
func wsReceive() int64

//go:wasmimport wasm-serve:http ws_kind
func wsKind() int32

//go:wasmimport wasm-serve:http ws_send
func wsSend(block uint64, kind int32) int64

//go:wasmimport wasm-serve:http ws_close
func wsClose(code int32, reason uint64) int64

// SocketError is a code of docs/guide/websockets.md; -1: the connection has ended.
type SocketError int64

func (code SocketError) Error() string { return fmt.Sprintf("the WebSocket failed: %d", int64(code)) }

const (
	gone   = SocketError(-1)
	text   = 1
	binary = 2
)

// Message is what a client has sent.
type Message struct {
	Bytes  []byte
	IsText bool
}

// Text returns the text of a message; a binary message has none.
func (message Message) Text() string {
	if !message.IsText {
		return ""
	}
	return string(message.Bytes)
}

// Receive waits for the next message; nil at the end of the connection.
func Receive() (*Message, error) {
	at := wsReceive()
	if err := check(at); errors.Is(err, gone) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	message := Message{IsText: wsKind() == text}
	if at > 0 {
		memory := pdk.FindMemory(uint64(at))
		message.Bytes = memory.ReadBytes()
	}
	return &message, nil
}

// SendText sends a text. It waits while the client reads more slowly.
func SendText(message string) error { return send([]byte(message), text) }

// SendBytes sends a binary message.
func SendBytes(message []byte) error { return send(message, binary) }

// Close closes the connection: 1000, 1008, 1011, or a code of your own from 3000 to 4999.
func Close(code int32, reason string) error {
	if reason == "" {
		return check(wsClose(code, 0))
	}
	block := pdk.AllocateString(reason)
	return check(wsClose(code, block.Offset()))
}

// send leaves its block to the host, which frees it.
func send(message []byte, kind int32) error {
	if len(message) == 0 {
		return check(wsSend(0, kind))
	}
	block := pdk.AllocateBytes(message)
	return check(wsSend(block.Offset(), kind))
}

func check(code int64) error {
	if code < 0 {
		return SocketError(code)
	}
	return nil
}
