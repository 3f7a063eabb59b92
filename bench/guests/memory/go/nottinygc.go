//go:build gc.custom

package main

import _ "github.com/wasilibs/nottinygc"
