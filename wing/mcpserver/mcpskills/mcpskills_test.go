package mcpskills

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/tool"
)

// A skillFolder is a skill with files.
type skillFolder struct {
	name  string
	files map[string][]byte
}

func (s skillFolder) Content() *tool.SkillContent {
	return &tool.SkillContent{Folder: "skills/" + s.name, Name: s.name, Files: s.files}
}
func (s skillFolder) HasScripts() bool { return false }
func (s skillFolder) Fields() map[string]any {
	return map[string]any{"name": s.name, "description": "About " + s.name + "."}
}

func newLetters() tool.Skill {
	return skillFolder{"letters", map[string][]byte{
		"SKILL.md": []byte("---\nname: letters\n---\n"), "references/own words.md": []byte("Be brief."),
		"references/deep/notes": []byte("x"), "assets/logo.png": {0xff, 0xd8}, "assets/empty.txt": nil,
	}}
}

// Clients list skills page by page, get one by its URI, and read its folders. Bad cursors and URIs
// are invalid parameters.
func TestMethods(t *testing.T) {
	skills := []tool.Skill{newLetters()}
	for i := range 35 {
		skills = append(skills, skillFolder{fmt.Sprintf("skill-%d", i), map[string][]byte{"skill.md": []byte("x")}})
	}
	catalog, err := NewCatalog(skills)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, func() *Catalog { return catalog })
	if got := fmt.Sprint(s.InitializeResult().Capabilities.Extensions); got != "map[io.modelcontextprotocol/skills:map[directoryRead:true]]" {
		t.Errorf("the extensions are %s", got)
	}
	var sizes []int
	list := &listResult{}
	for done := false; !done; done = list.NextCursor == "" {
		list = callMethod[*listResult](t, s, "skills/list", &params{Cursor: list.NextCursor})
		sizes = append(sizes, len(list.Skills))
	}
	if !slices.Equal(sizes, []int{16, 16, 4}) || list.TTLMs != 5 || list.CacheScope != "private" || list.ResultType != "complete" {
		t.Errorf("the pages have %v skills, the last is %+v", sizes, list.complete)
	}
	one := callMethod[*getResult](t, s, "skills/get", &params{URI: "skill://letters/SKILL.md"}).Skill
	if one.Name() != "letters" || one.Description() != "About letters." || len(one.Resources) != 5 {
		t.Errorf("the skill is %+v", one)
	}
	if f := one.Resources[len(one.Resources)-1]; f != (File{"skill://letters/references/own%20words.md", "sha256:213c22ed7234eb11116e1e88f314c73cb3a019b5c87fe224b6ce5665bd9ec50e", 9}) {
		t.Errorf("the file is %+v", f)
	}
	for uri, want := range map[string]string{
		"skill://letters":             "SKILL.md text/markdown, assets inode/directory, references inode/directory",
		"skill://letters/references/": "deep inode/directory, own words.md text/markdown",
		"skill://letters/assets":      "empty.txt text/plain, logo.png image/png",
		"skill://skill-3":             "SKILL.md text/markdown",
	} {
		var names []string
		for _, r := range callMethod[*folderResult](t, s, "resources/directory/read", &params{URI: uri}).Resources {
			names = append(names, r.Name+" "+r.MIMEType)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%s has %s, want %s", uri, got, want)
		}
	}
	for _, bad := range []struct {
		method, cursor, uri, want string
	}{
		{"skills/list", "0", "", "unknown cursor"},
		{"skills/list", "36", "", "unknown cursor"},
		{"skills/list", "-1", "", "unknown cursor"},
		{"skills/list", "16x", "", "unknown cursor"},
		{"skills/get", "", "skill://letters", "unknown skill: the URI must be that of a skill's SKILL.md"},
		{"resources/directory/read", "1", "skill://letters", "unknown cursor"},
		{"resources/directory/read", "", "skill://letters/SKILL.md", "the URI is not a skill's folder"},
		{"resources/directory/read", "", "skill://letters/..", "the URI is not a skill's folder"},
		{"resources/directory/read", "", "file:///etc", "the URI is not a skill's folder"},
		{"resources/directory/read", "", "", "the URI is not a skill's folder"},
	} {
		_, err := mcp.CallCustomMethod[*params, *getResult](t.Context(), s, bad.method, &params{Cursor: bad.cursor, URI: bad.uri})
		if failed := (*jsonrpc.Error)(nil); !errors.As(err, &failed) || failed.Code != jsonrpc.CodeInvalidParams || failed.Message != bad.want {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Without skills the methods and the capability do not exist.
func TestWithoutSkills(t *testing.T) {
	s := connect(t, func() *Catalog { return nil })
	if got := s.InitializeResult().Capabilities.Extensions; got != nil {
		t.Errorf("the extensions are %v", got)
	}
	_, err := mcp.CallCustomMethod[*params, *listResult](t.Context(), s, "skills/list", &params{})
	if failed := (*jsonrpc.Error)(nil); !errors.As(err, &failed) || failed.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("the error is %v", err)
	}
}

// Files are found by their URI, in either spelling, and nothing else is.
func TestFindFile(t *testing.T) {
	catalog, err := NewCatalog([]tool.Skill{newLetters()})
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"skill://letters/SKILL.md":                   "text/markdown ---\nname: letters\n---\n",
		"skill://letters/references/own%20words.md":  "text/markdown Be brief.",
		"skill://letters/references/own words.md":    "text/markdown Be brief.",
		"skill://letters/references/deep%2Fnotes":    "text/plain x",
		"skill://letters/assets/logo.png":            "image/png \xff\xd8",
		"skill://letters/assets/empty.txt":           "text/plain ",
		"skill://letters/references":                 "",
		"skill://letters/SKILL.md?x":                 "",
		"skill://letters/../letters/SKILL.md":        "",
		"skill://other/SKILL.md":                     "",
		"skill://letters/references/own%zzwords.md":  "",
		"file://letters/SKILL.md":                    "",
		"skill://letters/references/own%20words.md#": "",
	} {
		got := ""
		if c := catalog.FindFile(uri); c != nil {
			if got = c.MIMEType + " " + c.Text + string(c.Blob); c.Text == "" && c.Blob == nil {
				t.Errorf("%s has neither text nor a blob", uri)
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", uri, got, want)
		}
	}
}

// A skill has at most as many files as clients accept.
func TestTooManyFiles(t *testing.T) {
	files := map[string][]byte{}
	for i := range 513 {
		files[fmt.Sprint("references/", i)] = []byte("x")
	}
	_, err := NewCatalog([]tool.Skill{skillFolder{"letters", files}})
	if err == nil || err.Error() != `skill "letters" exceeds the limit of 512 files for MCP clients, got 513` {
		t.Errorf("the error is %v", err)
	}
}

// connect returns a client of a server with the extension.
func connect(t *testing.T, current func() *Catalog) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err := Register(server, current, 5); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err := errors.Join(
		mcp.AddSendingCustomMethod[*params, *listResult](client, "skills/list"),
		mcp.AddSendingCustomMethod[*params, *getResult](client, "skills/get"),
		mcp.AddSendingCustomMethod[*params, *folderResult](client, "resources/directory/read"),
	); err != nil {
		t.Fatal(err)
	}
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	if _, err := server.Connect(context.Background(), serverEnd, nil); err != nil {
		t.Fatal(err)
	}
	s, err := client.Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func callMethod[R mcp.Result](t *testing.T, s *mcp.ClientSession, method string, p *params) R {
	t.Helper()
	result, err := mcp.CallCustomMethod[*params, R](t.Context(), s, method, p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
