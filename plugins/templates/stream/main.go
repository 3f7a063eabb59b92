package main

import (
	"fmt"

	"github.com/extism/go-pdk"
)

// capitals sends the body back in capitals, piece by piece.
//
//go:wasmexport capitals
func capitals() int32 {
	if err := Start(`{"headers":{"content-type":"text/plain; charset=utf-8"}}`); err != nil {
		return fail(err)
	}
	for {
		piece, err := Read()
		if err != nil {
			return fail(err)
		}
		if piece == nil {
			return 0
		}
		if err := Write(upper(piece)); err != nil {
			return fail(err) // the client has gone
		}
	}
}

// upper changes ASCII only: a piece may end within any other character.
func upper(piece []byte) []byte {
	for at, each := range piece {
		if 'a' <= each && each <= 'z' {
			piece[at] = each - 'a' + 'A'
		}
	}
	return piece
}

// count counts to three in server-sent events.
//
//go:wasmexport count
func count() int32 {
	for number := 1; number <= 3; number++ {
		if err := Event(fmt.Sprintf(`{"event":"count","id":"%d","data":%d}`, number, number)); err != nil {
			return fail(err)
		}
		if err := Pause(100); err != nil {
			return fail(err)
		}
	}
	return 0
}

func fail(err error) int32 {
	pdk.SetError(err)
	return 1
}

func main() {}
