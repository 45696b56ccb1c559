# SPDX-License-Identifier: Apache-2.0
"""Python's FTP_TLS, with data connections that resume the TLS session of the control connection.
For scripts in this directory."""
import ftplib


class FTP_TLS(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self._prot_p:
            conn = self.context.wrap_socket(conn, server_hostname=self.host,
                                            session=self.sock.session)
        return conn, size
