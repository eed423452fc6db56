package replay

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

const (
	// maxFileBytes limits the session's files that a replay restores.
	maxFileBytes = 64 << 20
	// maxFileVersions limits their versions.
	maxFileVersions = 1000
)

// files are the stored files that a session can load, for the turns of its replay.
type files struct {
	// names are in order, and versions are by name, in theirs.
	names    []string
	versions map[string][]fileVersion
	// lacks is why files are missing; empty if none is.
	lacks string
}

// A fileVersion is a version of a file. One that is gone is an absence.
type fileVersion struct {
	created time.Time
	part    *genai.Part
}

// readFiles reads a session's files and its user's.
func readFiles(ctx context.Context, st *store.Store, key session.Key) (*files, error) {
	names, err := st.Artifacts.Keys(ctx, key)
	if err != nil {
		return nil, err
	}
	f := &files{names: names, versions: map[string][]fileVersion{}}
	size, count := 0, 0
	for _, name := range names {
		all, err := st.Artifacts.Versions(ctx, key, name)
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			return nil, err
		}
		for _, v := range all {
			part, err := st.Artifacts.Load(ctx, key, name, v.Version)
			if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
				part, err = store.Absence(), nil
			}
			if err != nil {
				return nil, err
			}
			if size += len(part.Text); part.InlineData != nil {
				size += len(part.InlineData.Data)
			}
			if count++; size > maxFileBytes || count > maxFileVersions {
				f.lacks = "the session has more than 64 MiB or 1000 versions"
				return f, nil
			}
			for len(f.versions[name]) < v.Version { // earlier ones were pruned
				f.versions[name] = append(f.versions[name], fileVersion{v.Created, store.Absence()})
			}
			f.versions[name] = append(f.versions[name], fileVersion{v.Created, part})
		}
	}
	return f, nil
}

// restoreFiles stores the files as they were before a message. Those that the message brought are saved again by the
// replayed turn.
func (f *files) restoreFiles(ctx context.Context, st *store.Store, key session.Key, message *session.Event) error {
	for _, name := range f.names {
		for number, v := range f.versions[name] {
			if saved, ok := message.Actions.ArtifactDelta[name]; !v.created.Before(message.Timestamp) || ok && number >= saved {
				break
			}
			if _, err := st.Artifacts.Save(ctx, key, name, v.part); err != nil {
				return err
			}
		}
	}
	return nil
}
