package vertexstore

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// A resource is a reasoning engine or a RAG corpus, and how to reach it.
type resource struct {
	// project and location are empty in express mode.
	project, location string
	kind              *resourceKind
	id                string
	// base is the service's address without a slash at the end.
	base string
	// key is the express mode API key.
	key string
	// customBase reports that GOOGLE_VERTEX_BASE_URL is set.
	customBase bool
}

// A resourceKind is a kind of resource in a URL.
type resourceKind struct {
	scheme, collection, noun, placeholder string
	// hasKeys reports that express mode has these resources.
	hasKeys bool
}

// The resource kinds.
var (
	engineKind = &resourceKind{"agentengine:", "reasoningEngines", "reasoning engine", "ENGINE", true}
	corpusKind = &resourceKind{"rag:", "ragCorpora", "RAG corpus", "CORPUS", false}
)

// urlForms returns an instruction.
func (k *resourceKind) urlForms() string {
	return fmt.Sprintf("write %s//%s or %s//projects/PROJECT/locations/LOCATION/%s/%s", k.scheme, k.placeholder, k.scheme, k.collection, k.placeholder)
}

// locationName returns the name for the resource's project and location.
func (r *resource) locationName() string {
	return "projects/" + r.project + "/locations/" + r.location
}

// resourceName returns the resource's name.
func (r *resource) resourceName() string {
	if r.project == "" {
		return r.kind.collection + "/" + r.id
	}
	return r.locationName() + "/" + r.kind.collection + "/" + r.id
}

var (
	resourceID    = regexp.MustCompile(`^[0-9]{1,30}$`)
	resourceToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
	projectToken  = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)
)

// parseResource parses a URL for a resource kind, and completes it from the environment, as ADK
// does.
func parseResource(kind *resourceKind, rawURL string, lookup func(string) string) (*resource, error) {
	rest, ok := strings.CutPrefix(rawURL, kind.scheme)
	if !ok {
		return nil, errors.New(kind.urlForms())
	}
	name, ok := strings.CutPrefix(rest, "//")
	switch {
	case !ok || name == "":
		return nil, fmt.Errorf("a %s is required: %s", kind.noun, kind.urlForms())
	case strings.ContainsAny(name, "?#@"):
		return nil, fmt.Errorf("%s URLs have no parameters and no user: %s", kind.scheme, kind.urlForms())
	}
	r := &resource{kind: kind, id: name}
	if strings.Contains(name, "/") {
		parts := strings.Split(name, "/")
		if len(parts) != 6 || parts[0] != "projects" || parts[2] != "locations" || parts[4] != kind.collection {
			return nil, fmt.Errorf("resource name %q is malformed: %s", name, kind.urlForms())
		}
		r.project, r.location, r.id = parts[1], parts[3], parts[5]
	} else if err := r.readEnvironment(lookup); err != nil {
		return nil, err
	}
	if !resourceID.MatchString(r.id) {
		return nil, fmt.Errorf("%q must be the number of a %s: %s", r.id, kind.noun, kind.urlForms())
	}
	if r.key == "" && (!projectToken.MatchString(r.project) || !resourceToken.MatchString(r.location)) {
		return nil, fmt.Errorf("project %q or location %q is invalid: %s", r.project, r.location, kind.urlForms())
	}
	return r, r.chooseBase(lookup("GOOGLE_VERTEX_BASE_URL"))
}

// readEnvironment reads project and location, or the express mode API key.
func (r *resource) readEnvironment(lookup func(string) string) error {
	r.project, r.location = lookup("GOOGLE_CLOUD_PROJECT"), lookup("GOOGLE_CLOUD_LOCATION")
	if r.kind.hasKeys && isEnterprise(lookup) {
		r.key = strings.TrimSpace(lookup("GOOGLE_API_KEY"))
	}
	switch {
	case r.key != "" && (r.project != "" || r.location != ""):
		return errors.New("GOOGLE_API_KEY selects express mode, but GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is set as well: " +
			"unset the key to use the project, or write the full name of the " + r.kind.noun)
	case r.key != "":
		return nil
	case r.project == "" || r.location == "":
		return errors.New("GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is not set: set both, or write the full name of the " + r.kind.noun)
	}
	return nil
}

// isEnterprise reports whether GOOGLE_API_KEY is a key for express mode.
func isEnterprise(lookup func(string) string) bool {
	value := strings.ToLower(cmp.Or(lookup("GOOGLE_GENAI_USE_ENTERPRISE"), lookup("GOOGLE_GENAI_USE_VERTEXAI")))
	return value == "true" || value == "1"
}

// chooseBase sets the service's address by location.
func (r *resource) chooseBase(custom string) error {
	if custom != "" {
		u, err := url.Parse(custom)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			return errors.New("GOOGLE_VERTEX_BASE_URL must be an https:// address, or an http:// address of this machine")
		}
		r.base, r.customBase = strings.TrimRight(u.String(), "/"), true
		return nil
	}
	switch r.location {
	case "", "global":
		r.base = "https://aiplatform.googleapis.com"
	case "us", "eu":
		r.base = "https://aiplatform." + r.location + ".rep.googleapis.com"
	default:
		r.base = "https://" + r.location + "-aiplatform.googleapis.com"
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
