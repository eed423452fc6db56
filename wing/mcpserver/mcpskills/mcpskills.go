// Package mcpskills serves skills to MCP clients, by the skills extension (SEP-2640): clients list the
// skills, with the digest and the size of each file, and read the files as resources.
package mcpskills

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/tool"
)

const (
	// Scheme begins the files' URIs.
	Scheme = "skill://"
	// Template matches the files' URIs.
	Template = "skill://{name}/{+file}"
	// mainFile is the file with a skill's instructions.
	mainFile      = "SKILL.md"
	otherMainFile = "skill.md"
	directoryType = "inode/directory"
	// maxFiles limits a skill's files, and pageSize a list's skills.
	maxFiles = 512
	pageSize = 16
)

// A Catalog is the skills that clients see. It is immutable.
type Catalog struct {
	skills []Skill
	files  map[string][]byte // by skill and path
	// folders are the names in each folder, by skill and path.
	folders map[string][]string
}

// A Skill is a skill as clients list it.
type Skill struct {
	URI         string         `json:"uri"`
	Frontmatter map[string]any `json:"frontmatter"`
	Resources   []File         `json:"resources"`
}

// A File is a file in a skill. Clients compare what they read with the digest and the size.
type File struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// NewCatalog returns a catalog with skills, in their order.
func NewCatalog(skills []tool.Skill) (*Catalog, error) {
	c := &Catalog{files: map[string][]byte{}, folders: map[string][]string{}}
	for _, s := range skills {
		content := s.Content()
		if n := len(content.Files); n > maxFiles {
			return nil, fmt.Errorf("skill %q exceeds the limit of %d files for MCP clients, got %d", content.Name, maxFiles, n)
		}
		skill := Skill{URI: fileURI(content.Name, mainFile), Frontmatter: s.Fields()}
		for _, name := range slices.Sorted(maps.Keys(content.Files)) {
			data := content.Files[name]
			if _, usual := content.Files[mainFile]; name == otherMainFile && !usual {
				name = mainFile
			}
			c.addFile(path.Join(content.Name, name), data)
			sum := sha256.Sum256(data)
			skill.Resources = append(skill.Resources, File{fileURI(content.Name, name), "sha256:" + hex.EncodeToString(sum[:]), len(data)})
		}
		c.skills = append(c.skills, skill)
	}
	return c, nil
}

// addFile adds a file to its folder, and each folder to the one above it.
func (c *Catalog) addFile(file string, data []byte) {
	if data == nil {
		data = []byte{}
	}
	c.files[file] = data
	for at := file; strings.Contains(at, "/"); at = path.Dir(at) {
		folder := path.Dir(at)
		if names := c.folders[folder]; slices.Contains(names, path.Base(at)) {
			return
		}
		c.folders[folder] = append(c.folders[folder], path.Base(at))
	}
}

// fileURI returns the URI of a file in a skill; "" as the file for the skill's folder.
func fileURI(skill, file string) string {
	parts := strings.Split(path.Join(skill, file), "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return Scheme + strings.Join(parts, "/")
}

// parseURI returns the skill and path in a URI.
func parseURI(uri string) (file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, Scheme)
	if !ok || strings.ContainsAny(rest, "?#") {
		return "", false
	}
	file, err := url.PathUnescape(rest)
	return file, err == nil
}

// Skills returns the skills.
func (c *Catalog) Skills() []Skill { return c.skills }

// Name returns the skill's name.
func (s *Skill) Name() string {
	name, _ := s.Frontmatter["name"].(string)
	return name
}

// Description returns the text that a model chooses the skill by.
func (s *Skill) Description() string {
	description, _ := s.Frontmatter["description"].(string)
	return description
}

// FindFile returns the contents at a URI; nil if it is not a skill's.
func (c *Catalog) FindFile(uri string) *mcp.ResourceContents {
	file, ok := parseURI(uri)
	data := c.files[file]
	if !ok || data == nil {
		return nil
	}
	contents := &mcp.ResourceContents{URI: uri, MIMEType: mediaType(file, data)}
	if utf8.Valid(data) && len(data) > 0 {
		contents.Text = string(data)
	} else {
		contents.Blob = data // the SDK omits empty text, and clients require one of both
	}
	return contents
}

// mediaTypes are the media types that do not depend on the machine.
var mediaTypes = map[string]string{
	".md": "text/markdown", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".html": "text/html", ".css": "text/css", ".csv": "text/csv", ".js": "text/javascript", ".py": "text/x-python",
	".sh": "application/x-sh", ".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif": "image/gif", ".svg": "image/svg+xml", ".webp": "image/webp",
}

func mediaType(file string, data []byte) string {
	if known := mediaTypes[strings.ToLower(path.Ext(file))]; known != "" {
		return known
	}
	if utf8.Valid(data) {
		return "text/plain"
	}
	return "application/octet-stream"
}

// listPage returns the skills after a cursor, which is the number of skills before it.
func (c *Catalog) listPage(cursor string) (page []Skill, next string, err error) {
	begin := 0
	if cursor != "" {
		if _, scanErr := fmt.Sscanf(cursor, "%d", &begin); scanErr != nil || fmt.Sprint(begin) != cursor || begin < 1 || begin >= len(c.skills) {
			return nil, "", invalidParams("unknown cursor")
		}
	}
	end := min(begin+pageSize, len(c.skills))
	if end < len(c.skills) {
		next = fmt.Sprint(end)
	}
	return c.skills[begin:end], next, nil
}

// listFolder returns what is in the folder at a URI, by name.
func (c *Catalog) listFolder(uri string) ([]*mcp.Resource, error) {
	folder, ok := parseURI(strings.TrimSuffix(uri, "/"))
	names := slices.Sorted(slices.Values(c.folders[folder]))
	if !ok || len(names) == 0 {
		return nil, invalidParams("the URI is not a skill's folder")
	}
	var all []*mcp.Resource
	for _, name := range names {
		file := path.Join(folder, name)
		kind := directoryType
		if data := c.files[file]; data != nil {
			kind = mediaType(file, data)
		}
		all = append(all, &mcp.Resource{URI: fileURI(file, ""), Name: name, MIMEType: kind})
	}
	return all, nil
}

func invalidParams(reason string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason}
}
