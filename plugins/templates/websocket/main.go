package main

import (
	"strconv"
	"strings"

	"github.com/extism/go-pdk"
)

// sum adds up the numbers that a client sends, and answers each with the sum so far. It is called for each connection.
//
//go:wasmexport sum
func sum() int32 {
	total := 0.0
	for {
		message, err := Receive()
		if err != nil {
			return fail(err)
		}
		if message == nil {
			return 0 // the end of the connection
		}
		answer := "not a number"
		if number, err := strconv.ParseFloat(strings.TrimSpace(message.Text()), 64); err == nil {
			total += number
			answer = strconv.FormatFloat(total, 'f', -1, 64)
		}
		if err := SendText(answer); err != nil {
			return fail(err)
		}
	}
}

func fail(err error) int32 {
	pdk.SetError(err)
	return 1
}

func main() {}
