package all_test

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2/hpack"

	"ipcbench/internal/test/check"
	"ipcbench/transports/endpoint"
)

// TestNothingOnTheWire: O21. With TLS, the bytes on the network between worker and server
// contain no part of the model or an update, and not the session's secret. With tls=off
// they contain them, which shows that the search works.
func TestNothingOnTheWire(t *testing.T) {
	for _, family := range families {
		for _, setting := range []string{"off", "on", "mutual"} {
			t.Run(family+"/"+setting, func(t *testing.T) {
				p := listen(t, family+":network=tcp:tls="+setting, nil)
				r := relayTo(t, p.address)
				e := endpoint.At("tcp:"+r.Addr().String(), p.Endpoint.Secret())
				check.Must(t, e.Join(p.Endpoint.Trust(), 0, func(request []byte) ([]byte, error) { return p.Endpoint.Sign(request, []int{0}) }))
				p.begin(e)
				p.end()
				up, down := r.crossed()
				secret := p.Endpoint.Secret()
				if packed := hpack.AppendHuffmanString(nil, p.Endpoint.Authorization()); bytes.Contains(up, packed) {
					secret = string(packed) // HTTP/2 sends header fields in Huffman code
				}
				for _, c := range []struct {
					what    string
					crossed []byte
					holds   string
				}{
					{"the model on its way", down, marker}, {"the update on its way", up, marker}, {"the secret", up, secret},
				} {
					check.Need(t, len(c.crossed) >= p.Options.Down.Payload(),
						"%s: %d bytes crossed: less than there are", c.what, len(c.crossed))
					check.Equal(t, bytes.Contains(c.crossed, []byte(c.holds)), setting == "off", c.what,
						"found among the", len(c.crossed), "bytes that crossed")
				}
				check.That(t, !bytes.Contains(down, []byte(p.Endpoint.Secret())), "the server has said the secret")
			})
		}
	}
}
