package loader

import "agenthost/pkg/spec"

// readConfigFiles reads the files that a config names, and reports whether there are
// none.
func (j *job) readConfigFiles(config any, ds *spec.Diagnostics) (selfContained bool) {
	selfContained = true
	if c, ok := config.(interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}); ok {
		*ds = append(*ds, c.ReadFiles(func(path string) (string, error) {
			selfContained = false
			return j.src.readTextFile(path)
		})...)
	}
	return selfContained
}

// checkSecrets reports secrets in fields that are displayed. All documents must have
// been decoded before.
func (j *job) checkSecrets() {
	if j.ds.HasErrors() {
		return // decoding may be incomplete
	}
	for _, root := range j.src.roots {
		j.report(spec.CheckSecrets(root)...)
	}
}
