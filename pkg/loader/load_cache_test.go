package loader

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// TestLoadCacheSameResult expects a load with a cache to have the same result as a load
// without one after any edit: the same problems, revision and effective document.
func TestLoadCacheSameResult(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	put := func(file, text string) {
		t.Helper()
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edits := map[string][]string{
		"app.yaml": {
			"models: {m: {provider: scripted, script: s.yaml}}\n",
			"models: {m: {provider: scripted, script: s.yaml}}\ndefaults: {LlmAgent: {description: Ours.}}\n",
			"models: {m: {provider: scripted, script: s.yaml}}\nschemas: {note: {text: string}}\ntools: {vat: {expr: {name: vat, params: {net: number}, value: args.net * 2}}}\n",
			"models: {m: {provider: scripted, script: s.yaml}}\nschemas: {note: {text: number}}\nfunctions: {pkg.check: {when: 'state.x == 1', respond: No.}}\n",
			"models: {m: {provider: scripted}}\n",
		},
		"root_agent.yaml": {
			"name: a\nmodel: m\ninstruction: Ask {x?}.\nsub_agents: [{config_path: b/b.yaml}, {config_path: c.yaml}]\n",
			"name: a\nmodel: m\ninstruction: Ask {x?}.\nstate_schema: {x: integer}\nsub_agents: [{config_path: c.yaml}, {config_path: b/b.yaml}]\n",
			"name: a\nmodel: m\ninstruction: Ask {y}.\nsub_agents: [{config_path: c.yaml}]\n",
			"name: a\nmodel: none\n  instruction: x\n",
		},
		"b/b.yaml": {
			"name: b\ninstruction: Help {x?}.\ntools: [{use: vat}]\n",
			"name: b\ninstruction: ${env:WHOM:-All}, help.\noutput_key: x\ntools: [{expr: {name: note, params: note, value: args.text}}]\n",
			"name: b\ninstruction_provider: file('p.md')\nbefore_agent_callbacks: [{name: pkg.check}]\n",
			"name: b\ninstructon: slip\n",
			"name: b\ninstruction: Call.\ntools:\n  - openapi: {spec: pets.yaml, operations: [getPet, listPets]}\n",
			"name: b\ndescription: Calls.\ninstruction: |\n  Call.\n\n  Twice.\ntools:\n  - openapi: {spec: pets.yaml, operations: [getPet, listPets]}\n",
			"name: b\ninstruction: Call.\ntools:\n  - openapi:\n      spec: pets.yaml\n      operations: [getPet, listPets]\n      params: {getPet: {size: 3}}\n",
			"name: b\ninstruction: Call.\n\ntools:\n  - openapi:\n      spec: pets.yaml\n      operations: [getPet, listPets]\n      params: {getPet: {size: 3}}\n",
			"name: b\n\ninstruction: Call.\ntools:\n  - name: OpenAPIToolset\n    args: {spec_dict: {openapi: 3.0.0, servers: [{url: 'https://a.example.com'}], paths: {/a: {put: {requestBody: {content: {application/xml: {}}}}}}}}\n",
			"name: b\ninstruction: Call.\ntools:\n  - name: OpenAPIToolset\n    args: {spec_dict: {openapi: 3.0.0, servers: [{url: 'https://a.example.com'}], paths: {/a: {put: {requestBody: {content: {application/xml: {}}}}}}}}\n",
		},
		"pets.yaml": {
			"openapi: 3.0.0\nservers: [{url: 'https://a.example.com'}]\npaths:\n  /pets/{id}:\n    get: {operationId: getPet, security: [{key: []}], parameters: [{name: id, in: path, required: true, schema: {type: string}}, {name: size, in: query, schema: {type: integer}}]}\n  /pets:\n    get: {operationId: listPets}\ncomponents: {securitySchemes: {key: {type: apiKey, in: header, name: K}}}\n",
			"openapi: 3.0.0\nservers: [{url: 'http://10.0.0.1'}]\npaths:\n  /pets/{id}:\n    get: {operationId: getPet, parameters: [{name: id, in: path, required: true}, {name: size, in: query}]}\n  /pets:\n    get: {operationId: listPets}\n",
			"openapi: 3.0.0\nservers: [{url: 'https://a.example.com'}]\npaths:\n  /pets:\n    get: {operationId: listPets}\n",
		},
		"c.yaml": {
			"name: c\ninstruction: File.\noutput_key: x\n",
			"name: c\ninstruction: File {x}.\nbefore_model_callbacks: [{set: {x: '2'}}]\n",
			"name: b\nagent_class: LoopAgent\nmax_iterations: 2\nsub_agents: [{name: d, instruction: x, output_key: x}]\n",
		},
		"p.md":   {"Be kind.", "Be quick."},
		"s.yaml": {"- text: hi\n", "- text: ho\n"},
	}
	files := []string{"app.yaml", "root_agent.yaml", "b/b.yaml", "b/b.yaml", "pets.yaml", "c.yaml", "p.md", "s.yaml"}
	for _, file := range files {
		put(file, edits[file][0])
	}
	l, rnd := New(listKinds(), nil), rand.New(rand.NewPCG(1, 2))
	loadAsText := func(c *loadCache) string {
		src, _ := l.openAppFolder(dir)
		defer src.close()
		if src.cache = c; c != nil {
			c.startLoad()
		}
		r := newResolver(l, src)
		app := r.loadAndCompile(t.Context())
		r.ds.Sort()
		text := fmt.Sprintln(src.computeRevision(), r.ds.Strings())
		if app != nil {
			text += renderText(r.app.buildEffectiveDocument())
			app.Close()
		}
		return text
	}
	r, good := &loadCache{}, 0
	for i := range 600 {
		file := files[rnd.IntN(len(files))]
		put(file, edits[file][rnd.IntN(len(edits[file]))])
		want, got := loadAsText(nil), loadAsText(r)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("edit %d of %s (-uncached +cached):\n%s", i, file, diff)
		}
		if len(want) > 300 {
			good++
		}
	}
	if good < 30 {
		t.Errorf("%d loads succeeded, too few for the test", good)
	}
	if n := len(l.resources.byKey); n != 0 {
		t.Errorf("%d resources are left", n)
	}
}

// TestLoadCacheEviction expects unused entries to be evicted, except by a load that
// failed.
func TestLoadCacheEviction(t *testing.T) {
	r, made := &loadCache{}, 0
	requestKeys := func(keys ...string) {
		r.startLoad()
		for _, key := range keys {
			getOrMake(r, key, func() (*spec.Node, bool) { made++; return &spec.Node{}, key != "passing" })
		}
	}
	for _, step := range []struct {
		keys []string
		made int
	}{
		{[]string{"a", "b"}, 2},
		{[]string{"a", "b", "b"}, 2},
		{nil, 2},
		{[]string{"a", "passing"}, 3},
		{[]string{"a", "passing"}, 4},
		{[]string{"b"}, 5},
	} {
		if requestKeys(step.keys...); made != step.made {
			t.Errorf("after %q: created %d, want %d", step.keys, made, step.made)
		}
	}
}
