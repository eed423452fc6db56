package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agenthost/wing/lsp"
)

const extensionFolder = "../../editors/vscode"

// TestExtensionSnippets: each snippet of the VS Code extension, with its suggested values, is a part of
// an app without problems, and its tests pass.
func TestExtensionSnippets(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "test")
	var snippets map[string]struct {
		Prefix string
		Body   []string
	}
	decodeFile(t, filepath.Join(extensionFolder, "snippets/agenthost.json"), &snippets)
	text := map[string]string{}
	for _, s := range snippets {
		text[s.Prefix] = expandSnippet(strings.Join(s.Body, "\n"))
	}
	agent := "name: clerk\nmodel: gemini-flash-latest\ninstruction: Sell.\n"
	tools := "tools:\n" + indent(text["http-tool"]) + indent(text["expr-tool"])
	for name, files := range map[string]map[string]string{
		"agent":      {"root_agent.yaml": text["agent"]},
		"tools":      {"root_agent.yaml": agent + tools},
		"confirm":    {"root_agent.yaml": agent + "tools:\n" + indent(strings.Replace(text["expr-tool"], "count: integer", "count: integer, amount: number", 1)) + "      " + text["confirm"] + "\n"},
		"sequential": {"root_agent.yaml": text["sequential"]},
		"test":       {"root_agent.yaml": agent, "root_agent.test.yaml": text["test"]},
		"eval":       {"root_agent.yaml": agent, "root_agent.eval.yaml": text["eval"]},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, content := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			runNew(t, "check", dir)
			if name == "test" {
				runNew(t, "test", dir)
			}
		})
	}
}

// placeholder matches a snippet's tab stop: ${1:value}, ${1|value,other|} or $0.
var placeholder = regexp.MustCompile(`\$\{\d+:([^{}$]*)\}|\$\{\d+\|([^,|]*)[^}]*\|\}|\$\d`)

// expandSnippet replaces the tab stops by their suggested values, the inner ones first.
func expandSnippet(text string) string {
	for placeholder.MatchString(text) {
		text = placeholder.ReplaceAllString(text, "$1$2")
	}
	return text
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// TestExtensionManifest: the extension names schemas that exist, and the commands of the server's code
// lenses that it shows in its own views.
func TestExtensionManifest(t *testing.T) {
	var manifest struct {
		Contributes struct {
			YAMLValidation []struct{ FileMatch, URL string }
		}
	}
	decodeFile(t, filepath.Join(extensionFolder, "package.json"), &manifest)
	if len(manifest.Contributes.YAMLValidation) == 0 {
		t.Error("the manifest names no schemas")
	}
	for _, v := range manifest.Contributes.YAMLValidation {
		if _, err := os.Stat(filepath.Join("../..", v.URL)); err != nil {
			t.Errorf("schema for %s: %v", v.FileMatch, err)
		}
	}
	source := readText(t, filepath.Join(extensionFolder, "src/extension.js"))
	for _, name := range []string{lsp.RunTest, lsp.PreviewAgent} {
		if !strings.Contains(source, "'"+name+"'") {
			t.Errorf("the extension does not run %s", name)
		}
	}
}

func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(readText(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
