// A registry in memory with the referrers API, which the registries of Debian and of distribution do not have.
package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	panic(http.Serve(listener, registry.New(registry.WithReferrersSupport(true))))
}
