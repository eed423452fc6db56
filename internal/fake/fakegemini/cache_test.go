package fakegemini_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
)

// The SDK can create, update, use and delete a cache.
func TestCachesThroughSDK(t *testing.T) {
	s := fakegemini.New()
	defer s.Close()
	now := time.Unix(1_800_000_000, 0).UTC()
	s.SetClock(func() time.Time { return now })
	ctx := t.Context()
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: "my-secret", HTTPClient: s.Client(), HTTPOptions: genai.HTTPOptions{BaseURL: s.URL()},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := func(c *genai.CachedContent, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s of %s ends in %s", c.Name, c.Model, c.ExpireTime.Sub(now))
	}
	generate := func(model string, config *genai.GenerateContentConfig) string {
		r, err := client.Models.GenerateContent(ctx, model, genai.Text("hi"), config)
		if err != nil {
			return err.Error()
		}
		return r.Text()
	}
	in := func(ttl time.Duration) string {
		return name(client.Caches.Create(ctx, "m", &genai.CreateCachedContentConfig{TTL: ttl, Contents: genai.Text("long")}))
	}
	with := &genai.GenerateContentConfig{CachedContent: "cachedContents/1"}
	const gone = "Error 403, Message: CachedContent not found (or permission denied), Status: PERMISSION_DENIED, Details: []"
	for _, tt := range []struct{ name, got, want string }{
		{"no ttl", in(0), `Error 400, Message: ttl "" must be a duration such as 3.5s, Status: INVALID_ARGUMENT, Details: []`},
		{"create", in(time.Minute), "cachedContents/1 of models/m ends in 1m0s"},
		{"extend", name(client.Caches.Update(ctx, "cachedContents/1", &genai.UpdateCachedContentConfig{TTL: time.Hour})), "cachedContents/1 of models/m ends in 1h0m0s"},
		{"get", name(client.Caches.Get(ctx, "cachedContents/1", nil)), "cachedContents/1 of models/m ends in 1h0m0s"},
		{"use", generate("m", with), "hi"},
		{"another model", generate("n", with), "Error 400, Message: Model used by GenerateContent request (n) and CachedContent (models/m) has to be the same., Status: INVALID_ARGUMENT, Details: []"},
		{
			"settings next to the cache",
			generate("m", &genai.GenerateContentConfig{CachedContent: "cachedContents/1", SystemInstruction: genai.Text("x")[0]}),
			"Error 400, Message: CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config., Status: INVALID_ARGUMENT, Details: []",
		},
		{"delete", deleteCache(ctx, client, "cachedContents/1"), "deleted"},
		{"delete again", deleteCache(ctx, client, "cachedContents/1"), gone},
		{"use a deleted cache", generate("m", with), gone},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	in(time.Minute)
	now = now.Add(time.Minute)
	if got := s.Caches(); len(got) != 0 {
		t.Errorf("Caches() = %v after expiry", got)
	}
	if got := name(client.Caches.Get(ctx, "cachedContents/2", nil)); got != gone {
		t.Errorf("Get after expiry = %s, want %s", got, gone)
	}
}

func deleteCache(ctx context.Context, client *genai.Client, name string) string {
	if _, err := client.Caches.Delete(ctx, name, nil); err != nil {
		return err.Error()
	}
	return "deleted"
}
