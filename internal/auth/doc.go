// Package auth authenticates callers by static tokens or by JWTs. Callers do not
// learn why authentication failed; the reason is for the log.
//
// An [Auth] is decoded from a document ([Decode]):
//
//	tokens:
//	  - {token: "${secret:ANA_TOKEN}", claims: {sub: ana}}
//	jwt:
//	  - {issuer: https://id.example, audience: agenthost, jwks: https://id.example/keys}
//	user_id: claims.sub
//	admin: '"ops" in (claims.groups ?? [])'
//	apps: app in (claims.apps ?? [])
//
// A [Principal] is an authenticated caller: its user ID, which the expression
// user_id derives from the claims, so that callers cannot choose it; whether it is
// an administrator; and which apps it may use. The keys of an issuer come from a
// file or a URL, and are fetched again when a token names an unknown key.
package auth
