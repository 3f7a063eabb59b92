package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/extism/go-pdk"
)

// hash answers with the SHA-256 and the size of an upload of any size.
//
//go:wasmexport hash
func hash() int32 {
	digest := sha256.New()
	size := 0
	for {
		piece, err := Read()
		if err != nil {
			return fail(err)
		}
		if piece == nil {
			break
		}
		digest.Write(piece)
		size += len(piece)
	}
	pdk.OutputString(fmt.Sprintf("%x %d\n", digest.Sum(nil), size))
	return 0
}

// filter passes on the lines of a CSV file that have the text of the config `keep`, and its first line.
//
//go:wasmexport filter
func filter() int32 {
	text, _ := pdk.GetConfig("keep")
	keep := []byte(text)
	if err := Start(`{"headers":{"content-type":"text/csv"},"trailers":["x-lines"]}`); err != nil {
		return fail(err)
	}
	lines := 0
	passOn := func(line []byte) error {
		if lines > 0 && !bytes.Contains(line, keep) {
			return nil
		}
		lines++
		return Write(line)
	}
	var rest []byte
	for {
		piece, err := Read()
		if err != nil {
			return fail(err)
		}
		if piece == nil {
			break
		}
		rest = append(rest, piece...)
		for {
			end := bytes.IndexByte(rest, '\n') + 1
			if end == 0 {
				break
			}
			if err := passOn(rest[:end]); err != nil {
				return fail(err)
			}
			rest = rest[end:]
		}
	}
	if len(rest) > 0 {
		if err := passOn(rest); err != nil {
			return fail(err)
		}
	}
	if err := Trailers(fmt.Sprintf(`{"x-lines":"%d"}`, lines)); err != nil {
		return fail(err)
	}
	return 0
}

// count sends a number every `interval` milliseconds (a config), up to 10, until the client has gone.
//
//go:wasmexport count
func count() int32 {
	text, _ := pdk.GetConfig("interval")
	interval, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		interval = 1_000
	}
	for number := 1; number <= 10; number++ {
		if Event(fmt.Sprintf(`{"event":"count","id":"%d","data":%d}`, number, number)) != nil {
			return 0 // the client has gone
		}
		_ = Pause(interval)
	}
	return 0
}

func fail(err error) int32 {
	pdk.SetError(err)
	return 1
}

func main() {}
