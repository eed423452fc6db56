package policy

import (
	"path/filepath"
	"slices"

	"agenthost/pkg/spec"
)

// Sandbox folders by name: the app's and the session's.
const (
	AppFolder  = "app"
	WorkFolder = "work"
)

// A Sandbox limits a grant's programs.
type Sandbox struct {
	// Network allows connections.
	Network bool
	// Read and Write are absolute paths, [AppFolder] and [WorkFolder]. Read is nil for the system's
	// folders.
	Read, Write []string
	// Memory and FileSize are in bytes.
	Memory, FileSize int64
	// Processes limits processes and threads.
	Processes int
}

type sandboxConfig struct {
	Network   string      `yaml:"network" enum:"none|host" default:"none" doc:"Whether programs may use the network of the host. Unix sockets are never available."`
	Read      []spec.Text `yaml:"read" doc:"The absolute paths that programs may read and execute, with all below them; app is the app folder. Default: the system folders, such as /usr."`
	Write     []spec.Text `yaml:"write" doc:"The paths that programs may also change: absolute paths, and work, the folder of the session. Default: work."`
	Memory    spec.Size   `yaml:"memory" default:"512MiB" doc:"Maximum memory for all processes in a call together; at least 16MiB."`
	Processes int         `yaml:"processes" default:"64" doc:"Maximum number of processes and threads."`
	FileSize  spec.Size   `yaml:"file_size" default:"64MiB" doc:"Maximum size of each file that programs write."`
}

const minMemory = 16 << 20

func (c *sandboxConfig) validateSandbox(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.Memory < minMemory {
		ds = append(ds, n.Get("memory").Errorf("grant", "memory must be at least 16MiB"))
	}
	if c.Processes < 1 {
		ds = append(ds, n.Get("processes").Errorf("grant", "processes must be at least 1, got %d", c.Processes))
	}
	if c.FileSize < 1 {
		ds = append(ds, n.Get("file_size").Errorf("grant", "file_size must be more than 0"))
	}
	check := func(paths []spec.Text, names ...string) {
		for _, path := range paths {
			if !filepath.IsAbs(path.Value) && !slices.Contains(names, path.Value) {
				ds = append(ds, path.Errorf(0, "grant", "%q is not an absolute path", path.Value).
					WithHint("write an absolute path, %s", joinOr(names)))
			}
		}
	}
	check(c.Read, AppFolder, WorkFolder)
	check(c.Write, WorkFolder)
	return ds
}

func joinOr(names []string) string {
	if len(names) == 1 {
		return "or " + names[0]
	}
	return names[0] + " or " + names[1]
}

func (c *sandboxConfig) decodeSandbox(n *spec.Node) *Sandbox {
	s := &Sandbox{
		Network: c.Network == "host", Read: textValues(c.Read), Write: textValues(c.Write),
		Memory: int64(c.Memory), FileSize: int64(c.FileSize), Processes: c.Processes,
	}
	if n.Get("read") != nil && s.Read == nil {
		s.Read = []string{}
	}
	if n.Get("write") == nil {
		s.Write = []string{WorkFolder}
	}
	return s
}

func textValues(texts []spec.Text) []string {
	var values []string
	for _, text := range texts {
		values = append(values, text.Value)
	}
	return values
}
