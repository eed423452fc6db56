package main

import (
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"agenthost/internal/fake/fakeanthropic"
	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/fake/fakeollama"
	"agenthost/internal/fake/fakeopenai"
)

// A fakeModel is a running fake provider.
type fakeModel struct {
	url   string
	close func()
	// calls returns the model and the key for each received call.
	calls func() []string
}

// fakeModels lists the fake providers, each with the answer that it returns.
func fakeModels() map[string]func(answer string) fakeModel {
	return map[string]func(string) fakeModel{
		"gemini": startFakeGemini, "openai": startFakeOpenAI, "anthropic": startFakeAnthropic, "ollama": startFakeOllama,
		"busy-openai": startBusyOpenAI, "repeating-openai": startRepeatingOpenAI,
	}
}

func startFakeGemini(answer string) fakeModel {
	s := fakegemini.New()
	s.Enqueue(fakegemini.Text(answer))
	return fakeModel{s.URL(), s.Close, func() []string {
		var calls []string
		for _, r := range s.Requests() {
			calls = append(calls, r.Model+" "+r.Credential)
		}
		return calls
	}}
}

func startFakeOpenAI(answer string) fakeModel {
	return startOpenAI(fakeopenai.Reply{Chunks: []string{answer}})
}

// startBusyOpenAI starts a server that rejects the first call.
func startBusyOpenAI(answer string) fakeModel {
	return startOpenAI(fakeopenai.Reply{Status: 429, Message: "slow down", RetryAfter: "0.01"}, fakeopenai.Reply{Chunks: []string{answer}})
}

// startRepeatingOpenAI starts a server that answers 20 calls.
func startRepeatingOpenAI(answer string) fakeModel {
	return startOpenAI(slices.Repeat([]fakeopenai.Reply{{Chunks: []string{answer}}}, 20)...)
}

func startOpenAI(replies ...fakeopenai.Reply) fakeModel {
	s := fakeopenai.New()
	s.Enqueue(replies...)
	return fakeModel{s.URL(), s.Close, func() []string {
		var calls []string
		for _, r := range s.Requests() {
			calls = append(calls, fmt.Sprint(r.Body["model"], " ", r.Key))
		}
		return calls
	}}
}

func startFakeAnthropic(answer string) fakeModel {
	s := fakeanthropic.New()
	s.Enqueue(fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text(answer)}})
	return fakeModel{s.URL(), s.Close, func() []string {
		var calls []string
		for _, r := range s.Requests() {
			calls = append(calls, fmt.Sprint(r.Body["model"], " ", r.Header.Get("X-Api-Key")))
		}
		return calls
	}}
}

func startFakeOllama(answer string) fakeModel {
	s := fakeollama.New()
	s.Enqueue(fakeollama.Reply{Chunks: []string{answer}})
	return fakeModel{s.URL(), s.Close, func() []string {
		var calls []string
		for _, r := range s.Requests() {
			calls = append(calls, fmt.Sprint(r.Body["model"], " ", r.Header.Get("Authorization")))
		}
		return calls
	}}
}

// startFakeModel starts a fake provider, and sets a variable to its URL.
func startFakeModel(ts *testscript.TestScript, args []string) {
	start, ok := fakeModels()[args[0]]
	if !ok {
		ts.Fatalf("there is no fake of provider %s", args[0])
	}
	fake := start(args[2])
	p := stateOf(ts)
	p.models = append(p.models, fake)
	ts.Setenv(args[1], fake.url)
}

// printModelCalls prints the model and the key for each call that the last fake received.
func printModelCalls(ts *testscript.TestScript, _ []string) {
	fakes := stateOf(ts).models
	if len(fakes) == 0 {
		ts.Fatalf("there is no fake: start it with fake-model")
	}
	for _, call := range fakes[len(fakes)-1].calls() {
		fmt.Fprintln(ts.Stdout(), call)
	}
}
