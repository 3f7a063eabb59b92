// Go's Fiber with Extism's Go SDK, for the bench: the server of the article in its three forms, and in two better ones.
//
//	fiber echo             answers with the body
//	fiber shared FILE      one instance for all requests, without a lock
//	fiber fresh FILE       a plug-in for each request: read, compiled, closed
//	fiber compiled FILE    compiled once, an instance for each request
//	fiber mutex FILE       one instance behind a mutex
//	fiber pool FILE        compiled once, as many instances as cores
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"sync"

	extism "github.com/extism/go-sdk"
	"github.com/gofiber/fiber/v3"
	"github.com/tetratelabs/wazero"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: fiber FORM [FILE]")
	}
	file := ""
	if len(os.Args) > 2 {
		file = os.Args[2]
	}
	handle, err := handler(os.Args[1], file)
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Post("/", handle)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listens on http://%s\n", listener.Addr())
	log.Fatal(app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}))
}

func handler(form, file string) (fiber.Handler, error) {
	switch form {
	case "echo":
		return func(c fiber.Ctx) error { return c.Send(c.Body()) }, nil
	case "shared":
		return shared(file)
	case "fresh":
		return fresh(file), nil
	case "compiled":
		return compiled(file)
	case "mutex":
		return mutex(file)
	case "pool":
		return pool(file)
	}
	return nil, fmt.Errorf("no such form: %s", form)
}

func shared(file string) (fiber.Handler, error) {
	plugin, err := open(file)
	return func(c fiber.Ctx) error { return answer(c, plugin) }, err
}

func fresh(file string) fiber.Handler {
	return func(c fiber.Ctx) error {
		plugin, err := open(file)
		if err != nil {
			return err
		}
		defer plugin.Close(context.Background())
		return answer(c, plugin)
	}
}

func compiled(file string) (fiber.Handler, error) {
	code, err := compile(file)
	return func(c fiber.Ctx) error {
		plugin, err := instance(code)
		if err != nil {
			return err
		}
		defer plugin.Close(context.Background())
		return answer(c, plugin)
	}, err
}

func mutex(file string) (fiber.Handler, error) {
	plugin, err := open(file)
	var lock sync.Mutex
	return func(c fiber.Ctx) error {
		lock.Lock()
		defer lock.Unlock()
		return answer(c, plugin)
	}, err
}

// Calls do not wait for the network: more instances than cores would only use more memory.
func pool(file string) (fiber.Handler, error) {
	code, err := compile(file)
	if err != nil {
		return nil, err
	}
	free := make(chan *extism.Plugin, runtime.NumCPU())
	for range cap(free) {
		plugin, err := instance(code)
		if err != nil {
			return nil, err
		}
		free <- plugin
	}
	return func(c fiber.Ctx) error {
		plugin := <-free
		defer func() { free <- plugin }()
		return answer(c, plugin)
	}, nil
}

func answer(c fiber.Ctx, plugin *extism.Plugin) error {
	_, output, err := plugin.Call("hello", c.Body())
	if err != nil {
		return c.Status(fiber.StatusConflict).SendString(err.Error())
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.Send(output)
}

func open(file string) (*extism.Plugin, error) {
	return extism.NewPlugin(context.Background(), manifest(file), config, nil)
}

func compile(file string) (*extism.CompiledPlugin, error) {
	return extism.NewCompiledPlugin(context.Background(), manifest(file), config, nil)
}

func instance(code *extism.CompiledPlugin) (*extism.Plugin, error) {
	return code.Instance(context.Background(), extism.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig()})
}

func manifest(file string) extism.Manifest {
	return extism.Manifest{Wasm: []extism.Wasm{extism.WasmFile{Path: file}}}
}

var config = extism.PluginConfig{EnableWasi: true}
