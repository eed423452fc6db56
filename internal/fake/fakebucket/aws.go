package fakebucket

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Addresses of the AWS services.
const (
	containerHost = "169.254.170.23"
	metadataHost  = "169.254.169.254"
)

// AWS issues temporary credentials as Amazon's services do, selected by the host in a request:
// sts.… with AssumeRoleWithWebIdentity, the container credentials endpoint
// 169.254.170.23/v1/credentials, and the instance metadata service 169.254.169.254 in version 2.
// Each credential set is new, and S3 accepts it until it expires.
type AWS struct {
	// Role is the role that may be assumed, and WebToken the web identity token that
	// it trusts.
	Role, WebToken string
	// ContainerToken is the token for the container credentials endpoint.
	ContainerToken string
	// Lifetime is how long credentials are valid; 0 is one hour.
	Lifetime time.Duration

	mu     sync.Mutex
	issued []issuedKeys
	// metadataToken is the instance metadata service's token.
	metadataToken string
}

// issuedKeys are temporary credentials.
type issuedKeys struct {
	id, secret, session string
	expires             time.Time
}

// Issued returns how many credential sets have been issued.
func (a *AWS) Issued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.issued)
}

// ServeHTTP handles one request.
func (a *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.Host, "sts."):
		a.assumeRole(w, r)
	case r.Host == containerHost:
		a.serveContainer(w, r)
	case r.Host == metadataHost:
		a.serveMetadata(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (a *AWS) assumeRole(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost || r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("Version") != "2011-06-15":
		writeSTSError(w, http.StatusBadRequest, "InvalidAction", "Could not find operation")
	case r.FormValue("RoleSessionName") == "":
		writeSTSError(w, http.StatusBadRequest, "ValidationError", "roleSessionName is required")
	case r.FormValue("WebIdentityToken") != a.WebToken:
		writeSTSError(w, http.StatusBadRequest, "ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time")
	case r.FormValue("RoleArn") != a.Role:
		writeSTSError(w, http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	default:
		keys := a.issueKeys()
		type credentials struct {
			ID         string `xml:"AccessKeyId"`
			Secret     string `xml:"SecretAccessKey"`
			Session    string `xml:"SessionToken"`
			Expiration string
		}
		writeXML(w, http.StatusOK, struct {
			XMLName     xml.Name    `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleWithWebIdentityResponse"`
			Credentials credentials `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
			RequestID   string      `xml:"ResponseMetadata>RequestId"`
		}{Credentials: credentials{keys.id, keys.secret, keys.session, keys.expires.Format(time.RFC3339)}, RequestID: "r-1"})
	}
}

func writeSTSError(w http.ResponseWriter, status int, code, message string) {
	writeXML(w, status, struct {
		XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
		Type      string   `xml:"Error>Type"`
		Code      string   `xml:"Error>Code"`
		Message   string   `xml:"Error>Message"`
		RequestID string   `xml:"RequestId"`
	}{Type: "Sender", Code: code, Message: message, RequestID: "r-1"})
}

func (a *AWS) serveContainer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != a.ContainerToken:
		writeAWSJSON(w, http.StatusUnauthorized, map[string]string{"code": "AccessDeniedException", "message": "Service account token is not valid"})
	case r.URL.Path != "/v1/credentials":
		writeAWSJSON(w, http.StatusNotFound, map[string]string{"code": "ResourceNotFoundException", "message": "not found"})
	default:
		writeAWSJSON(w, http.StatusOK, describeKeys(a.issueKeys()))
	}
}

// serveMetadata serves the instance's role to requests with a token from PUT /latest/api/token.
func (a *AWS) serveMetadata(w http.ResponseWriter, r *http.Request) {
	const roles = "/latest/meta-data/iam/security-credentials/"
	switch path := r.URL.Path; {
	case path == "/latest/api/token":
		if r.Method != http.MethodPut || r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = fmt.Fprint(w, a.issueMetadataToken())
	case !a.isMetadataToken(r.Header.Get("X-Aws-Ec2-Metadata-Token")):
		w.WriteHeader(http.StatusUnauthorized)
	case path == roles:
		_, _ = fmt.Fprint(w, "host-role")
	case path == roles+"host-role":
		keys := describeKeys(a.issueKeys())
		keys["Code"], keys["Type"] = "Success", "AWS-HMAC"
		writeAWSJSON(w, http.StatusOK, keys)
	default:
		http.NotFound(w, r)
	}
}

func (a *AWS) issueMetadataToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadataToken = "metadata-token"
	return a.metadataToken
}

func (a *AWS) isMetadataToken(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return token != "" && token == a.metadataToken
}

func (a *AWS) issueKeys() issuedKeys {
	a.mu.Lock()
	defer a.mu.Unlock()
	lifetime := a.Lifetime
	if lifetime == 0 {
		lifetime = time.Hour
	}
	n := len(a.issued) + 1
	keys := issuedKeys{fmt.Sprintf("ASIA%d", n), fmt.Sprintf("hush-%d", n), fmt.Sprintf("session-%d", n), time.Now().UTC().Add(lifetime)}
	a.issued = append(a.issued, keys)
	return keys
}

// findKeys returns issued credentials by their access key ID.
func (a *AWS) findKeys(id string) (issuedKeys, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, keys := range a.issued {
		if keys.id == id {
			return keys, true
		}
	}
	return issuedKeys{}, false
}

func describeKeys(k issuedKeys) map[string]string {
	return map[string]string{
		"AccessKeyId": k.id, "SecretAccessKey": k.secret, "Token": k.session, "Expiration": k.expires.Format(time.RFC3339),
	}
}

// writeAWSJSON writes JSON with the media type that the SDK expects for errors.
func writeAWSJSON(w http.ResponseWriter, status int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
