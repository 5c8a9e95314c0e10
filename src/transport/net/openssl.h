// OpenSSL, opened at run time: a table of the functions that we use, each under its own name.
#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "base/status.h"

namespace eccl::transport {

#define ECCL_OPENSSL_FUNCTIONS(each)                                                                           \
  each(OPENSSL_init_ssl) each(OpenSSL_version) each(TLS_method) each(SSL_CTX_new) each(SSL_CTX_ctrl)           \
      each(SSL_CTX_set_ciphersuites) each(SSL_CTX_set_num_tickets) each(SSL_CTX_set_psk_client_callback)       \
          each(SSL_CTX_set_psk_server_callback) each(SSL_set_verify) each(SSL_CTX_set_default_read_buffer_len) \
              each(SSL_new) each(SSL_free) each(SSL_set_ex_data) each(SSL_get_ex_data) each(SSL_set_bio)       \
                  each(SSL_set_connect_state) each(SSL_set_accept_state) each(SSL_do_handshake)                \
                      each(SSL_session_reused) each(SSL_get_current_cipher) each(SSL_CIPHER_get_name)          \
                          each(SSL_set_read_ahead) each(SSL_has_pending) each(SSL_read_ex) each(SSL_write_ex)  \
                              each(BIO_get_new_index) each(BIO_meth_new) each(BIO_meth_set_write)              \
                                  each(BIO_meth_set_read) each(BIO_meth_set_ctrl) each(BIO_new)                \
                                      each(BIO_set_data) each(BIO_get_data) each(BIO_set_init)                 \
                                          each(BIO_set_flags) each(BIO_clear_flags) each(HMAC)                 \
                                              each(EVP_sha256) each(ERR_get_error)                             \
                                                  each(ERR_reason_error_string) each(ERR_clear_error)

/// Owner: the process, for ever. Any thread.
struct OpenSsl {
  /// The library of this process, which is opened once. Error (system): it cannot be opened, or lacks a
  /// function; the sentence says what to do. The same each time. Not logged.
  static Result<const OpenSsl*> get();

#define ECCL_OPENSSL_MEMBER(name) decltype(&::name) name = nullptr;
  ECCL_OPENSSL_FUNCTIONS(ECCL_OPENSSL_MEMBER)
#undef ECCL_OPENSSL_MEMBER

 private:
  Status open();
};

}  // namespace eccl::transport
