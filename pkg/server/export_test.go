package server

// Patterns are those of every route.
func (s *Server) Patterns() []string {
	var all []string
	for _, r := range s.table() {
		all = append(all, r.pattern)
	}
	return all
}
