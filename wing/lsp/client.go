package lsp

// A clientInfo is what an editor can do, and where it works.
type clientInfo struct {
	// documentChanges reports that edits may be for versions of documents.
	documentChanges bool
	// folders are the workspace's folders.
	folders []string
}

// readClient reads what the names' requests need from initialize.
func (s *Server) readClient(m *message) error {
	var p struct {
		RootURI string `json:"rootUri"`
		Folders []struct {
			URI string `json:"uri"`
		} `json:"workspaceFolders"`
		Capabilities struct {
			Workspace struct {
				Edit struct {
					DocumentChanges bool `json:"documentChanges"`
				} `json:"workspaceEdit"`
			} `json:"workspace"`
		} `json:"capabilities"`
	}
	if len(m.Params) == 0 {
		return nil
	}
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	s.client = clientInfo{documentChanges: p.Capabilities.Workspace.Edit.DocumentChanges}
	for _, f := range p.Folders {
		s.client.folders = append(s.client.folders, pathFromURI(f.URI))
	}
	if len(p.Folders) == 0 && p.RootURI != "" {
		s.client.folders = []string{pathFromURI(p.RootURI)}
	}
	return nil
}
